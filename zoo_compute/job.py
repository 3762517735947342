"""A job as its submitter writes it down: `ComputeJob`, read from YAML or JSON, every key checked. No torch.

What the network runs is the `Manifest` (zoo_compute.manifest) that it makes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from repops.fields import BadField, between, nearest, read
from repops.specs import ARCHITECTURES, Profile, ProgramSpec
from zoo_compute.amounts import format_amount, parse_amount
from zoo_compute.errors import UserError
from zoo_compute.manifest import DataFile, HeldoutFile, JobError, Manifest, Outer, StateFile, refusals_told
from zoo_compute.spec.params import MAX_PRICE, MAX_ROUNDS, escrow_of

__all__ = [
    "CheckpointConfig",
    "ComputeJob",
    "DataFile",
    "HeldoutFile",
    "JobError",
    "Manifest",
    "Outer",
    "Prices",
    "StateFile",
]

MAX_CONFIG_BYTES = 1024 * 1024
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


@dataclass(frozen=True)
class ModelSection:
    """`model:` an architecture by name and its sizes."""

    layers: int
    heads: int
    width: int
    context: int
    vocab: int = 256
    tied: bool = True
    architecture: str = "gpt"


@dataclass(frozen=True)
class DataSection:
    """`data:` text files or directories (relative to the configuration), and how many examples to hold out."""

    path: str = ""
    paths: list[str] = field(default_factory=list)
    heldout: int = 128


@dataclass(frozen=True)
class TrainingSection:
    """`training:` the inner optimiser, the rounds and the outer optimiser."""

    learning_rate: float
    batch_size: int
    inner_steps: int
    rounds: int
    slots: int
    quorum: int | None = None  # two thirds of the slots, rounded up
    segment_steps: int | None = None  # a quarter of the inner steps, rounded up
    optimizer: str = "adamw"
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    warmup_steps: int = 0
    clip_norm: float = 0.0
    outer_learning_rate: float = 0.7
    outer_momentum: float = 0.9
    seed: int = 0


@dataclass(frozen=True)
class MarketSection:
    """`market:` prices per slot-round, and per round for the aggregator, in ZEN as decimal text."""

    reserve: str | float | None = None
    max_price: str | float | None = None
    aggregator_reserve: str | float | None = None
    aggregator_max_price: str | float | None = None
    token: str = "ZEN"


@dataclass(frozen=True)
class LimitsSection:
    """`limits:` most seconds a slot, an aggregation and a re-execution of a slot-round may take."""

    slot_s: int = 3_600
    aggregate_s: int = 1_800
    reexecute_s: int | None = None  # as slot_s


@dataclass(frozen=True)
class CheckpointConfig:
    """`checkpoint:` which checkpoints are kept, where, and on how many stores.

    A checkpoint is made at the end of every round, that is every `inner_steps` steps; `interval` counts steps of a slot
    and says which of them outlive the job: every `interval / inner_steps`-th, and always the last. 0 keeps all.
    """

    interval: int = 0
    storage: str = "ipfs"
    redundancy: int = 2

    def __post_init__(self) -> None:
        between("checkpoint.interval", self.interval, 0, 10**10)
        between("checkpoint.redundancy", self.redundancy, 1, 256)
        if self.storage != "ipfs":
            raise BadField(f"checkpoint.storage: expected 'ipfs' (embedded or a daemon), got {self.storage!r}")

    def every_rounds(self, inner_steps: int) -> int:
        """Keep the checkpoint of every n-th round. Raises BadField when no round ends at `interval`."""
        if self.interval % inner_steps:
            below = max(1, self.interval // inner_steps) * inner_steps
            raise BadField(
                f"checkpoint.interval: {self.interval} steps is no multiple of training.inner_steps = {inner_steps}, "
                f"where rounds end; use {below} or {below + inner_steps}"
            )
        return max(1, self.interval // inner_steps)


def read_config(path: Path) -> Any:
    """What a YAML or JSON file says, unchecked. Raises JobError, naming the file."""
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise JobError(f"{path}: larger than a configuration should be ({MAX_CONFIG_BYTES} bytes)")
        return yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise JobError(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise JobError(f"{path}: not YAML or JSON: {error}") from error


class Prices(NamedTuple):
    """In the token's smallest unit; the first two per slot-round, the others per round."""

    reserve: int
    max_price: int
    aggregator_reserve: int
    aggregator_max_price: int


SECTIONS: dict[str, type] = {
    "model": ModelSection,
    "data": DataSection,
    "training": TrainingSection,
    "market": MarketSection,
    "limits": LimitsSection,
    "checkpoint": CheckpointConfig,
}


def _section(name: str, given: Mapping[str, Any] | None) -> Any:
    """Read one section; a key that belongs to another section is told so."""
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise BadField(f"{name}: expected a mapping, got {given!r}")
    own = {f.name for f in fields(SECTIONS[name])}
    for key in given:
        homes = [other for other, cls in SECTIONS.items() if key in {f.name for f in fields(cls)}]
        if key not in own and homes:
            raise BadField(f"{name}: unknown key {key!r}; it belongs to {homes[0]!r}")
    return read(SECTIONS[name], given, name)


@dataclass
class ComputeJob:
    """A job as its submitter describes it: four plain values, and optionally market, limits and checkpoint.

    budget_max: the most ZEN the job may put in escrow, as decimal text; prices that `market` lacks follow from it.
    """

    model_config: dict[str, Any]
    data_config: dict[str, Any]
    training_config: dict[str, Any]
    budget_max: str | int | float | None = None
    market_config: dict[str, Any] | None = None
    limits_config: dict[str, Any] | None = None
    checkpoint_config: dict[str, Any] | CheckpointConfig | None = None
    directory: Path = field(default_factory=Path)

    def __post_init__(self) -> None:
        with refusals_told():
            self.model: ModelSection = _section("model", self.model_config)
            self.data: DataSection = _section("data", self.data_config)
            self.training: TrainingSection = _section("training", self.training_config)
            self.market: MarketSection = _section("market", self.market_config)
            self.limits: LimitsSection = _section("limits", self.limits_config)
            given = self.checkpoint_config
            self.checkpoint = given if isinstance(given, CheckpointConfig) else _section("checkpoint", given)
            self.spec: ProgramSpec = self._program()
            self.checkpoint.every_rounds(self.training.inner_steps)
            if self.market.token != "ZEN" and not _ADDRESS.fullmatch(self.market.token):
                raise BadField(f"market.token: expected 'ZEN' or an address, got {self.market.token!r}")
        self.outline()  # checks every range now, before any data is read
        with refusals_told():
            self.prices: Prices = self._prices()

    @property
    def examples_wanted(self) -> int:
        """Examples for a run in which none is seen twice."""
        return self.training.rounds * self.examples_of_a_round

    @property
    def examples_of_a_round(self) -> int:
        return self.training.slots * self.training.inner_steps * self.training.batch_size

    @property
    def profile(self) -> Profile:
        return self.spec.profile

    @property
    def flops(self) -> int:
        """Of one slot-round."""
        return self.profile.flops * self.training.inner_steps

    @property
    def escrow(self) -> int:
        """What posting pulls."""
        prices, training = self.prices, self.training
        return escrow_of(training.rounds, training.slots, prices.max_price, prices.aggregator_max_price)

    def data_paths(self) -> list[Path]:
        """The files and directories of `data:`, relative ones from the configuration's directory."""
        given = [*([self.data.path] if self.data.path else []), *self.data.paths]
        if not given:
            raise JobError("data: name the text to train on with `path` or `paths`")
        return [self.directory / Path(path).expanduser() for path in given]

    def outline(self) -> Manifest:
        """The manifest before its files exist: its numbers are those of the real one, its content addresses are not."""
        cid, root = "b" + "a" * 58, "0" * 64
        return self.manifest(StateFile(cid, root), DataFile(cid, root, examples=1), HeldoutFile(cid))

    def manifest(self, state: StateFile, data: DataFile, heldout: HeldoutFile) -> Manifest:
        """The job's manifest, once its files are stored."""
        training, limits = self.training, self.limits
        return Manifest(
            program=self.spec.to_dict(),
            rounds=training.rounds,
            slots=training.slots,
            quorum=-(-2 * training.slots // 3) if training.quorum is None else training.quorum,
            inner_steps=training.inner_steps,
            segment_steps=training.segment_steps or max(1, -(-training.inner_steps // 4)),
            seed=training.seed,
            state=state,
            data=data,
            heldout=heldout,
            outer=Outer(training.outer_learning_rate, training.outer_momentum),
            slot_s=limits.slot_s,
            aggregate_s=limits.aggregate_s,
            reexecute_s=limits.slot_s if limits.reexecute_s is None else limits.reexecute_s,
            redundancy=self.checkpoint.redundancy,
            keep_every=min(MAX_ROUNDS, self.checkpoint.every_rounds(training.inner_steps)),
        )

    @classmethod
    def from_file(cls, path: str | Path) -> ComputeJob:
        """Read a YAML or JSON configuration. Raises JobError, naming the file."""
        path = Path(path)
        given = read_config(path)
        try:
            return cls.from_dict(given, directory=path.parent)
        except UserError as error:
            raise JobError(f"{path}: {error}", hint=error.hint) from error

    @classmethod
    def from_dict(cls, given: object, *, directory: Path | None = None) -> ComputeJob:
        """From the sections of a configuration file."""
        with refusals_told():
            if not isinstance(given, Mapping):
                raise BadField(f"expected the sections {', '.join(SECTIONS)}, got {given!r}")
            for key in given:
                if key not in SECTIONS and key != "budget_max":
                    raise BadField(f"unknown section {key!r}; {nearest(str(key), [*SECTIONS, 'budget_max'])}")
            for key in ("model", "training"):
                if key not in given:
                    raise BadField(f"missing section {key!r}")
        return cls(
            given["model"],
            given.get("data") or {},
            given["training"],
            given.get("budget_max"),
            market_config=given.get("market"),
            limits_config=given.get("limits"),
            checkpoint_config=given.get("checkpoint"),
            directory=directory or Path(),
        )

    def _program(self) -> ProgramSpec:
        model, training = self.model, self.training
        if model.architecture not in ARCHITECTURES:
            raise BadField(
                f"model.architecture: unknown {model.architecture!r}; {nearest(model.architecture, ARCHITECTURES)}"
            )
        sizes = {k: v for k, v in asdict(model).items() if k != "architecture"}
        rule = ("learning_rate", "beta1", "beta2", "epsilon", "weight_decay", "warmup_steps", "clip_norm")
        optimizer = {"name": training.optimizer} | {name: getattr(training, name) for name in rule}
        return ProgramSpec(sizes | {"name": model.architecture}, optimizer, training.batch_size)

    def _prices(self) -> Prices:
        market, training = self.market, self.training
        budget = None if self.budget_max is None else parse_amount(self.budget_max, what="budget_max")
        if market.max_price is not None:
            most = parse_amount(market.max_price, what="market.max_price")
        elif budget is not None:
            most = budget // (training.rounds * (training.slots + 1))
        else:
            raise JobError("market.max_price: missing", hint="give market.max_price, or budget_max to derive it from")
        reserve = most if market.reserve is None else parse_amount(market.reserve, what="market.reserve")
        given = market.aggregator_max_price
        most_a = most if given is None else parse_amount(given, what="market.aggregator_max_price")
        given = market.aggregator_reserve
        reserve_a = min(reserve, most_a) if given is None else parse_amount(given, what="market.aggregator_reserve")
        for name, low, high in (("", reserve, most), ("aggregator_", reserve_a, most_a)):
            if not 1 <= low <= high <= MAX_PRICE:
                raise JobError(f"market.{name}reserve: expected more than 0 and at most {name}max_price")
        prices = Prices(reserve, most, reserve_a, most_a)
        escrow = escrow_of(training.rounds, training.slots, most, most_a)
        if budget is not None and escrow > budget:
            raise JobError(
                f"budget_max: the job needs {format_amount(escrow)} in escrow, the budget is {format_amount(budget)}",
                hint="lower market.max_price, market.aggregator_max_price, training.rounds or training.slots",
            )
        return prices
