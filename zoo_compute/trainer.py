"""`DistributedTrainer`: one object for who thinks in a model, a dataset and a budget of tokens; over the client.

trainer = DistributedTrainer(model="gpt-1m", dataset="./corpus", nodes=6, budget_tokens=2e7, max_budget=100)
trainer.train("model.safetensors")
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repops.fields import BadField
from zoo_compute.errors import UserError
from zoo_compute.job import ComputeJob
from zoo_compute.models.presets import MODELS, preset, sized

if TYPE_CHECKING:
    from zoo_compute.client import Client
    from zoo_compute.posted import Job
    from zoo_compute.progress import Progress
    from zoo_compute.quote import Quote

TRAINING: dict[str, Any] = {"batch_size": 8, "inner_steps": 50}
LEARNING_RATE = 1e-3  # of a built-in model that has no name


class DistributedTrainer:
    """Train `model` on `dataset` with `nodes` slots until about `budget_tokens` tokens were seen.

    model: a name (`zoo_compute.models.presets`), FILE.py:FUNCTION that returns (module, loss, optimizer), or a `model:` section.
    dataset: text files or folders, or one file of arrays. training: keys of the `training:` section over the defaults.
    max_budget: whole ZEN. Every other argument is the Client's.
    """

    def __init__(
        self,
        model: str | Mapping[str, Any],
        dataset: str | Path | list[str] | list[Path],
        nodes: int,
        budget_tokens: float,
        *,
        max_budget: str | int | float | None = None,
        training: Mapping[str, Any] | None = None,
        market: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        client: Client | None = None,
        **client_options: Any,
    ) -> None:
        section, learning_rate = _section(model)
        built_in = not section.keys() & {"module", "program"}
        rule = {
            **TRAINING,
            **({"learning_rate": learning_rate} if built_in else {}),
            **(training or {}),
            "slots": nodes,
        }
        rule.setdefault("rounds", _rounds(budget_tokens, section, rule))
        if max_budget is None and not (market or {}).get("max_price"):
            raise UserError(
                "no budget given",
                hint="give max_budget (ZEN), or market={'max_price': ...}; `zoo quote` helps to choose",
            )
        paths: list[str | Path] = [dataset] if isinstance(dataset, (str, Path)) else [*dataset]
        for path in paths:
            if not Path(path).expanduser().exists():
                raise UserError(
                    f"no data at {path}", hint="`dataset` is a text file or a folder of text, or a list of them"
                )
        self.job_description = ComputeJob.from_dict(
            {
                "model": section,
                "data": {"paths": [str(Path(path).expanduser().resolve()) for path in paths]},
                "training": rule,
                **{
                    name: dict(value)
                    for name, value in (("market", market), ("limits", limits), ("checkpoint", checkpoint))
                    if value is not None
                },
                **({} if max_budget is None else {"budget_max": max_budget}),
            }
        )
        self._client, self._options = client, client_options
        self.job: Job | None = None

    @property
    def client(self) -> Client:
        from zoo_compute.client import Client

        if self._client is None:
            self._client = Client(**self._options)
        return self._client

    def quote(self) -> Quote:
        """What it will cost and take. Asks nobody."""
        return self.client.quote(self.job_description)

    def submit(self) -> Job:
        """Post the job and return at once; called again, the same job."""
        if self.job is None:
            self.job = self.client.train(self.job_description)
        return self.job

    def train(self, out: str | Path | None = None) -> Progress:
        """Post the job, wait until it is over, and write the model to `out` if it is given."""
        job = self.submit()
        progress = job.join()
        if out is not None and progress.state == "ended":
            job.result(out)
        return progress


def _section(model: str | Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """The `model:` section with its sizes, and the learning rate of a built-in model. Raises UserError."""
    if isinstance(model, str) and ":" in model:
        path, _, function = model.rpartition(":")
        return {"module": f"{Path(path).expanduser().resolve() if path.endswith('.py') else path}:{function}"}, 0.0
    section = {"name": model} if isinstance(model, str) else dict(model)
    if "name" not in section or section.keys() & {"module", "program"}:
        return section, LEARNING_RATE
    try:
        return sized(section), preset(section["name"]).learning_rate
    except BadField as error:
        raise UserError(
            str(error),
            hint=f"names are {', '.join(MODELS)}; or bring your own: FILE.py:FUNCTION that returns (module, loss, optimizer)",
        ) from error


def _rounds(budget_tokens: float, model: Mapping[str, Any], rule: Mapping[str, Any]) -> int:
    """Rounds until `budget_tokens` were trained on, at least one. Without a context, examples count for tokens."""
    sizes = [rule.get("slots"), rule.get("inner_steps"), rule.get("batch_size"), model.get("context", 1)]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return 1  # the section's own check says what is wrong
    if not (isinstance(budget_tokens, (int, float)) and math.isfinite(budget_tokens) and budget_tokens > 0):
        raise UserError(f"budget_tokens should be a positive number of tokens, not {budget_tokens!r}")
    return max(1, math.ceil(budget_tokens / math.prod(int(size) for size in sizes if size)))
