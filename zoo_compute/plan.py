"""What the user asked for: a configuration file (or its sections), and what the command line puts over it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo_compute.errors import UserError
from zoo_compute.job import ComputeJob, JobError
from zoo_compute.quote import check_budget, outline_terms
from zoo_compute.sections import read_config

Config = str | Path | Mapping[str, Any] | ComputeJob


@dataclass(frozen=True)
class Plan:
    """A checked job and the most it may put in escrow, as it was written (None: what its prices come to)."""

    job: ComputeJob
    most: str | int | float | None

    @property
    def budget(self) -> int | None:
        """In the smallest unit of the job's token. Raises UserError."""
        return None if self.most is None else self.job.token.parse(self.most, what="budget_max")

    def check_budget(self) -> None:
        """Raises BudgetTooSmall."""
        budget = self.budget
        if budget is not None and budget < self.job.escrow:
            check_budget(budget, outline_terms(self.job), self.job.token)


def plan_of(config: Config, max_budget: str | int | float | None = None, data: str | Path | None = None) -> Plan:
    """Read and check. Prices named in `market` stand, and the budget is held against them; without them they follow from it.

    max_budget: whole tokens, in place of the configuration's budget_max. data: a path in place of the configuration's.
    Raises JobError, with the file's name where there is one.
    """
    if isinstance(config, ComputeJob):
        return _plan(_sections_of(config), config.directory, max_budget, data)
    if isinstance(config, Mapping):
        return _plan(dict(config), Path(), max_budget, data)
    path = Path(config).expanduser()
    try:
        return _plan(read_config(path), path.parent, max_budget, data)
    except UserError as error:
        raise JobError(
            str(error) if str(error).startswith(str(path)) else f"{path}: {error}", hint=error.hint
        ) from error


def _plan(given: Any, directory: Path, max_budget: str | int | float | None, data: str | Path | None) -> Plan:
    if not isinstance(given, dict):
        ComputeJob.from_dict(given)  # raises: says what is expected
    given = copy.copy(given)
    if max_budget is not None:
        given["budget_max"] = max_budget
    if data is not None:
        section = given.get("data") or {}
        if not isinstance(section, Mapping):
            ComputeJob.from_dict(given)
        given["data"] = {**section, "path": str(Path(data).expanduser().resolve()), "paths": [], "arrays": None}
    market = given.get("market")
    budget_text = given.get("budget_max")
    if budget_text is None or not isinstance(market, Mapping) or market.get("max_price") is None:
        return Plan(ComputeJob.from_dict(given, directory=directory), budget_text)
    del given["budget_max"]
    plan = Plan(ComputeJob.from_dict(given, directory=directory), budget_text)
    if plan.job.known_token is not None:
        _ = plan.budget  # refuse what is no amount now
    return plan


def _sections_of(job: ComputeJob) -> dict[str, Any]:
    """The sections a ComputeJob was made of."""
    checkpoint = job.checkpoint_config
    sections = {
        "model": job.model_config,
        "data": job.data_config,
        "training": job.training_config,
        "market": job.market_config,
        "limits": job.limits_config,
        "aggregation": job.aggregation_config,
        "checkpoint": checkpoint if isinstance(checkpoint, Mapping) or checkpoint is None else vars(checkpoint),
        "budget_max": job.budget_max,
    }
    return {key: value for key, value in sections.items() if value is not None}
