"""`DistributedTrainer`: train from a model, a dataset and a budget of tokens. Wraps the client.

trainer = DistributedTrainer(model="gpt-1m", dataset="./corpus", nodes=6, budget_tokens=2e7, max_budget=100)
trainer.train("model.safetensors")
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repops.fields import BadField
from zoo_compute.arguments import check_names, checks_arguments, names_of
from zoo_compute.client.datasets import is_name
from zoo_compute.errors import UserError
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.model_source import read_model
from zoo_compute.jobs.sections import BUDGET, SECTIONS, keys_of
from zoo_compute.models.presets import MODELS, preset, sized
from zoo_compute.spec.params import MAX_ROUNDS

if TYPE_CHECKING:
    from zoo_compute.client.client import Client
    from zoo_compute.client.job import Job
    from zoo_compute.client.progress import Progress
    from zoo_compute.jobs.quote import Quote

BATCH = 8
FINE_TUNING_RATE = 5e-5  # the default of transformers' own Trainer
LEARNING_RATE = 1e-3  # of a built-in model without a preset name
ROUNDS = 100  # default number of rounds, if each gets LEAST_STEPS to MOST_STEPS inner steps
LEAST_STEPS, MOST_STEPS = 30, 500  # DiLoCo's own is 500 (Douillard et al. 2023)


@checks_arguments
class DistributedTrainer:
    """Train `model` on `dataset` with `nodes` slots, for about `budget_tokens` tokens.

    model: a name (`zoo_compute.models.presets`), FILE.py:FUNCTION that returns (module, loss, optimizer), a causal model of
    `transformers`, or a `model:` section.
    dataset: text files or folders, one file of arrays, a mapping of arrays, or the name or number of a dataset of the
    network. max_budget: whole tokens.
    The other sections of a job's file are parameters too: training, compression, aggregation, market, limits, checkpoint,
    requirements, data (heldout, context). All other parameters are the Client's.

    budget_tokens sets rounds and inner steps; the batch size does not change. A job gets about 100 rounds: fewer if a round
    would have less than 30 inner steps, more if it would have more than 500. At the limit of 10,000 rounds, rounds get
    longer. `training={"rounds": ..., "inner_steps": ...}` overrides this; set one of them, and the other follows.
    For arrays without a context (not tokens), budget_tokens counts examples.
    """

    def __init__(
        self,
        model: Any,
        dataset: str | int | Path | Sequence[str | Path] | Mapping[str, Any],
        nodes: int,
        budget_tokens: float,
        *,
        max_budget: str | int | float | None = None,
        client: Client | None = None,
        **others: Any,
    ) -> None:
        from zoo_compute.client.client import Client

        check_names("DistributedTrainer", others, [*names_of(type(self)), *SECTIONS, *names_of(Client)])
        sections = {name: keys_of(name, others.pop(name)) for name in SECTIONS if others.get(name) is not None}
        if client is not None and others:
            raise UserError(f"give a client or the client's arguments ({', '.join(others)}), not both")
        section, learning_rate = _section(model)
        data = {**_data(dataset), **sections.get("data", {})}
        rule = {"batch_size": BATCH, "slots": nodes, **sections.get("training", {})}
        if not section.keys() & {"module", "program"}:  # these bring their optimizer
            rule.setdefault("learning_rate", learning_rate)
        if rule["slots"] != nodes:
            raise UserError(f"training.slots is {rule['slots']!r}, nodes is {nodes!r}", hint="set only nodes")
        context = data.get("context") or _context(section)
        rule |= _pace(budget_tokens, context, rule)
        self.job_description = ComputeJob.from_dict(
            {**sections, "model": section, "data": data, "training": rule, BUDGET: max_budget}
        )
        self._client, self._options = client, others
        self.job: Job | None = None

    @property
    def client(self) -> Client:
        from zoo_compute.client.client import Client

        if self._client is None:
            self._client = Client(**self._options)
        return self._client

    def quote(self) -> Quote:
        """Cost and duration. Sends nothing; see `Client.quote`."""
        return self.client.quote(self.job_description)

    def submit(self, *, anyway: bool = False) -> Job:
        """Post the job and return at once. Calling it again returns the same job. anyway: as in `Client.train`."""
        if self.job is None:
            self.job = self.client.train(self.job_description, anyway=anyway)
        return self.job

    def train(self, out: str | Path | None = None, *, anyway: bool = False) -> Progress:
        """Post the job, wait until it is over, and write the model to `out`, if given."""
        job = self.submit(anyway=anyway)
        progress = job.join()
        if out is not None and progress.state == "ended":
            job.result(out)
        return progress


def _data(dataset: str | int | Path | Sequence[str | Path] | Mapping[str, Any]) -> dict[str, Any]:
    """The keys of `data:` that name the data. A string is a path if that exists, else a dataset's name, looked up when the
    job is posted. Raises UserError.
    """
    if isinstance(dataset, Mapping):
        return {"arrays": dict(dataset)}
    named = isinstance(dataset, str) and is_name(dataset) and not Path(dataset).expanduser().exists()
    on_hub = isinstance(dataset, str) and "@" in dataset and not Path(dataset).expanduser().exists()
    if named or on_hub or isinstance(dataset, int):
        return {"dataset": dataset}
    paths = [Path(path).expanduser() for path in ([dataset] if isinstance(dataset, (str, Path)) else dataset)]
    for path in paths:
        if not path.exists():
            raise UserError(
                f"no data at {path}, and that is not a dataset's name",
                hint="`dataset` is a text file or a folder of text, a list of them, or the name of a dataset of the network (`zoo dataset list`)",
            )
    return {"paths": [str(path.resolve()) for path in paths]}


def _section(model: Any) -> tuple[dict[str, Any], float]:
    """The `model:` section with its sizes, and the learning rate of a built-in model. Raises UserError."""
    if hasattr(model, "save_pretrained"):
        return {"transformers": model}, FINE_TUNING_RATE
    if isinstance(model, str) and ":" in model:
        path, _, function = model.rpartition(":")
        return {"module": f"{Path(path).expanduser().resolve() if path.endswith('.py') else path}:{function}"}, 0.0
    section = {"name": model} if isinstance(model, str) else dict(model)
    if "transformers" in section:
        return section, FINE_TUNING_RATE
    if "name" not in section or section.keys() & {"module", "program"}:
        return section, LEARNING_RATE
    try:
        return sized(section), preset(section["name"]).learning_rate
    except BadField as error:
        raise UserError(
            str(error),
            hint=f"names are {', '.join(MODELS)}; or use your own: FILE.py:FUNCTION that returns (module, loss, optimizer)",
        ) from error


def _context(section: Mapping[str, Any]) -> Any:
    """Tokens of an example by the model alone; 1 where that says nothing."""
    if "transformers" not in section:
        return section.get("context", 1)
    return read_model(section, {"learning_rate": FINE_TUNING_RATE}).context or 1


def _pace(budget_tokens: float, context: Any, training: Mapping[str, Any]) -> dict[str, int]:
    """`rounds` and `inner_steps`: from `training` if set, else from the budget. Raises UserError."""
    if not (isinstance(budget_tokens, (int, float)) and math.isfinite(budget_tokens) and budget_tokens > 0):
        raise UserError(f"budget_tokens should be a positive number of tokens, not {budget_tokens!r}")
    sizes = [training.get("slots"), training.get("batch_size"), context]
    rounds, inner_steps = training.get("rounds"), training.get("inner_steps")
    if not all(isinstance(size, int) and size > 0 for size in (*sizes, rounds or 1, inner_steps or 1)):
        return {"rounds": rounds or 1, "inner_steps": inner_steps or 1}  # the section's check reports the error
    steps = math.ceil(budget_tokens / math.prod(sizes))  # of every slot
    if inner_steps is None:
        wanted = min(max(ROUNDS, _parts(steps, MOST_STEPS)), max(1, steps // LEAST_STEPS), MAX_ROUNDS)
        inner_steps = _parts(steps, rounds or wanted)
    rounds = rounds or _parts(steps, inner_steps)
    if rounds > MAX_ROUNDS:
        raise UserError(
            f"{budget_tokens:g} tokens are {rounds:,} rounds of {inner_steps} inner steps; a job has at most {MAX_ROUNDS:,}",
            hint=f"omit training['inner_steps'], or set {_parts(steps, MAX_ROUNDS):,} or more",
        )
    return {"rounds": rounds, "inner_steps": inner_steps}


def _parts(whole: int, size: int) -> int:
    return -(-whole // size)
