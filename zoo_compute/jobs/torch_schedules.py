"""A schedule of torch as a table of factors: `torch.optim.lr_scheduler` runs once, on the submitter's machine."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.jobs.traced_step import StepOptions

HINT = "use a schedule of steps, such as LambdaLR, CosineAnnealingLR, LinearLR or SequentialLR"


def schedule_of(scheduler: Any, optimizer: Any, rule: StepOptions) -> tuple[float, ...]:
    """The factor of the learning rate at each of the job's steps. Leaves optimizer and scheduler as they were, with the rate that the
    factors multiply. Raises UserError.
    """
    name = type(scheduler).__name__
    if getattr(scheduler, "optimizer", None) is not optimizer:
        raise UserError(f"model.module: {name} is no schedule of the optimizer that was returned", hint=HINT)
    if rule.schedule or rule.rates:
        key = "lr_scheduler_type" if rule.schedule else "warmup_steps"
        raise UserError(f"training.{key}: your module brings its own schedule, {name}", hint="leave one of them out")
    groups: list[dict[str, Any]] = scheduler.optimizer.param_groups
    if not all("initial_lr" in group for group in groups):  # ReduceLROnPlateau, which waits for a loss
        raise UserError(f"model.module: {name} cannot run before the training", hint=HINT)
    kept = copy.deepcopy(scheduler.state_dict()), [_settings(group) for group in groups]
    try:
        factors = tuple(_factors(name, scheduler, groups, rule.steps))
    finally:
        scheduler.load_state_dict(kept[0])
        for group, settings in zip(groups, kept[1], strict=True):
            group.update(settings | {"lr": group["initial_lr"]})
    return factors


def _factors(name: str, scheduler: Any, groups: list[dict[str, Any]], steps: int) -> Iterator[float]:
    first = [_settings(group) for group in groups]
    for _ in range(steps):
        shares = [float(group["lr"]) / float(group["initial_lr"]) for group in groups if group["initial_lr"]]
        if not shares or max(shares) - min(shares) > 1e-9 * max(map(abs, shares)):
            raise UserError(f"model.module: {name} gives groups of parameters different factors", hint=HINT)
        if any(_settings(group) | {"lr": 0} != before | {"lr": 0} for group, before in zip(groups, first, strict=True)):
            raise UserError(f"model.module: {name} changes more than the learning rate", hint=HINT)
        yield shares[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch expects a step of the optimizer in between
            scheduler.step()


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key != "params"}
