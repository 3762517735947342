"""From the user's input to a checked job: a file, a mapping or a ComputeJob, with overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo_compute.errors import UserError
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.jobs.config_file import read_file
from zoo_compute.jobs.quote import check_budget, outline_terms
from zoo_compute.jobs.sections import BUDGET, SECTIONS, keys_of

Config = str | Path | Mapping[str, Any] | ComputeJob
Amount = str | int | float
Data = str | Path | Mapping[str, Any]  # a path, or keys of `data:`

SOURCE_KEYS = {"path", "paths", "arrays", "dataset"}  # each alone names the data


@dataclass(frozen=True)
class JobPlan:
    """A checked job. most: the maximum escrow as written; None: no limit beyond its prices."""

    job: ComputeJob
    most: str | int | float | None

    @property
    def budget(self) -> int | None:
        """In the smallest unit of the job's token. Raises UserError."""
        return None if self.most is None else self.job.token.parse(self.most, what="budget_max")

    def check_budget(self) -> None:
        """Raises BudgetTooSmall. What custodians cost follows from the program, which waits for a dataset's shapes."""
        budget, job = self.budget, self.job
        is_known = job.data.on_network is None or job.fetched is not None
        cost = job.most - job.escrow if is_known and budget is not None else 0
        if budget is not None and budget < job.escrow + cost:
            check_budget(budget, outline_terms(job), job.token, cost)


def plan_job(
    config: Config | None = None, max_budget: Amount | None = None, data: Data | None = None, **sections: Any
) -> JobPlan:
    """Read and check a job. Prices in `market` are checked against the budget; missing prices follow from it.

    A ComputeJob without overrides stays the same object. max_budget: whole tokens, replaces the configuration's budget_max.
    data: a path that replaces the configuration's, or keys of its section. sections: mappings whose keys override those of
    the configuration's sections; `model` replaces the whole section.
    Raises JobError, with the file's name and line if there is one.
    """
    over = {name: section for name, section in sections.items() if section is not None}
    if data is not None:
        over["data"] = _data(data)
    if max_budget is not None:
        over[BUDGET] = max_budget
    if config is None and not over:
        raise JobError("no job given", hint="give a file, a ComputeJob, or the sections `model` and `training`")
    if isinstance(config, ComputeJob):
        if not over:
            return JobPlan(config, config.budget_max)
        return _plan(config.sections, config.directory, over)
    if config is None or isinstance(config, Mapping):
        return _plan(config or {}, Path(), over)
    file = read_file(Path(config).expanduser())
    try:
        return _plan(file.content, file.path.parent, over)
    except UserError as error:
        raise file.locate(error, _overridden(over)) from error


def _plan(config: Any, directory: Path, over: Mapping[str, Any]) -> JobPlan:
    if not isinstance(config, Mapping):
        ComputeJob.from_dict(config)  # raises the error that names what is expected
    said = {**config, **{name: _merge_section(name, config.get(name), keys) for name, keys in over.items()}}
    market, most = keys_of("market", said.get("market")), said.get(BUDGET)
    if most is not None and isinstance(market, Mapping) and market.get("max_price") is not None:
        del said[BUDGET]  # `JobPlan.check_budget` compares it with the prices, so that a quote can report the shortfall
    plan = JobPlan(ComputeJob.from_dict(said, directory=directory), most)
    if plan.job.known_token is not None:
        _ = plan.budget  # refuse an invalid amount now
    return plan


def _overridden(over: Mapping[str, Any]) -> set[str]:
    """The keys whose values are not the file's: those given, and the whole model."""
    whole = {name for name, keys in over.items() if name == "model" or not isinstance(keys_of(name, keys), Mapping)}
    return whole | {f"{name}.{key}" for name in over.keys() - whole for key in keys_of(name, over[name])}


def _merge_section(name: str, section: Any, over: Any) -> Any:
    """A section, overridden by the keys of `over`."""
    section, over = keys_of(name, section), keys_of(name, over)
    if name not in SECTIONS or name == "model" or not isinstance(section, Mapping) or not isinstance(over, Mapping):
        return over
    if name == "data" and over.keys() & SOURCE_KEYS:
        section = {key: value for key, value in section.items() if key not in SOURCE_KEYS}
    return {**section, **over}


def _data(data: Data) -> Mapping[str, Any]:
    """Keys of `data:`, with paths relative to the current directory, not to the configuration."""
    if isinstance(data, (str, Path)):
        return {"path": _absolute(data)}
    said = {**data}
    if isinstance(said.get("path"), (str, Path)):
        said["path"] = _absolute(said["path"])
    if isinstance(said.get("paths"), list):
        said["paths"] = [_absolute(path) for path in said["paths"]]
    if isinstance(tokenizer := said.get("tokenizer"), str) and Path(tokenizer).expanduser().exists():
        said["tokenizer"] = _absolute(tokenizer)
    return said


def _absolute(path: Any) -> Any:
    return str(Path(path).expanduser().resolve()) if isinstance(path, (str, Path)) and str(path) else path
