"""`DistributedTrainer`: one object for who thinks in a model, a dataset and a budget of tokens; over the client.

trainer = DistributedTrainer(model="gpt-1m", dataset="./corpus", nodes=6, budget_tokens=2e7, max_budget=100)
trainer.train("model.safetensors")
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_compute.errors import UserError
from zoo_compute.job import ComputeJob

if TYPE_CHECKING:
    from zoo_compute.client import Client
    from zoo_compute.posted import Job
    from zoo_compute.progress import Progress
    from zoo_compute.quote import Quote

# Byte-level decoders; sizes are of the parameters with a vocabulary of 256.
MODELS: dict[str, dict[str, Any]] = {
    "gpt-100k": {"layers": 2, "heads": 2, "width": 64, "context": 64},
    "gpt-1m": {"layers": 4, "heads": 4, "width": 128, "context": 128},
    "gpt-10m": {"layers": 6, "heads": 6, "width": 384, "context": 256},
    "gpt-85m": {"layers": 12, "heads": 12, "width": 768, "context": 512},
    "gpt-300m": {"layers": 24, "heads": 16, "width": 1024, "context": 1024},
}
TRAINING: dict[str, Any] = {"batch_size": 8, "inner_steps": 50}
LEARNING_RATE = 1e-3  # of the built-in models


class DistributedTrainer:
    """Train `model` on `dataset` with `nodes` slots until about `budget_tokens` tokens were seen.

    model: the name of a built-in configuration, FILE.py:FUNCTION that returns (module, loss, optimizer), or a `model:` section.
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
        section = _section(model) if isinstance(model, str) else dict(model)
        built_in = not section.keys() & {"module", "program"}
        rule = {
            **TRAINING,
            **({"learning_rate": LEARNING_RATE} if built_in else {}),
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


def _section(name: str) -> dict[str, Any]:
    if name in MODELS:
        return dict(MODELS[name])
    if ":" in name:
        path, _, function = name.rpartition(":")
        return {"module": f"{Path(path).expanduser().resolve() if path.endswith('.py') else path}:{function}"}
    near = difflib.get_close_matches(name, MODELS, 1)
    raise UserError(
        f"unknown model {name!r}; built in are {', '.join(MODELS)}",
        hint=f"did you mean {near[0]!r}?"
        if near
        else "or bring your own: FILE.py:FUNCTION that returns (module, loss, optimizer)",
    )


def _rounds(budget_tokens: float, model: Mapping[str, Any], rule: Mapping[str, Any]) -> int:
    """Rounds until `budget_tokens` were trained on, at least one. Without a context, examples count for tokens."""
    sizes = [rule.get("slots"), rule.get("inner_steps"), rule.get("batch_size"), model.get("context", 1)]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return 1  # the section's own check says what is wrong
    if not (isinstance(budget_tokens, (int, float)) and math.isfinite(budget_tokens) and budget_tokens > 0):
        raise UserError(f"budget_tokens should be a positive number of tokens, not {budget_tokens!r}")
    return max(1, math.ceil(budget_tokens / math.prod(int(size) for size in sizes if size)))
