"""The section `requirements` of a job's file."""

from __future__ import annotations

from dataclasses import dataclass

from repops.fields import BadField
from zoo_compute.config_keys import check_values
from zoo_compute.errors import UserError
from zoo_compute.gpus import TIERS, class_named
from zoo_compute.jobs.keys import REQUIREMENTS
from zoo_compute.requirement_words import parse_region
from zoo_compute.spec.requirements import Requirements


@dataclass(frozen=True)
class RequirementsSection:
    """`requirements:` what every operator that bids needs. Without keys: nothing.

    gpu_class: a class, or a list of those that will do. vram_gb: of one GPU, at least. admitted: its machine passed a trial.
    tier: at least this one. hours: at least so many promised hours of a day. region: where it says its machines are, such as EU,
    or EU-DE. Class, memory and admission are shown by trials, tier and hours cost stake when they are missed; nobody checks a
    region.
    """

    gpu_class: str | list[str] | None = None
    vram_gb: int = 0
    admitted: bool = False
    tier: str = "none"
    hours: int = 0
    region: str = ""

    def __post_init__(self) -> None:
        check_values("requirements", self, REQUIREMENTS)
        _ = self.word

    @property
    def word(self) -> int:
        """As the terms have it."""
        try:
            region = parse_region(self.region)
        except ValueError as error:
            raise BadField(f"requirements.region: {error}") from error
        named = [self.gpu_class] if isinstance(self.gpu_class, str) else self.gpu_class or []
        try:
            classes = sum(1 << number for number in {class_named(name).id for name in named})
        except UserError as error:
            raise BadField(f"requirements.gpu_class: {error}; {error.hint}") from error
        return Requirements(region, self.vram_gb, classes, self.hours, TIERS[self.tier], self.admitted).word
