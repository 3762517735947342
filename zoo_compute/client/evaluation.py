"""Loss and other metrics of a job's checkpoints on its held-out examples, computed here: nothing that a node reports is believed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repops import backend, encoding, files
from repops.graph import BadProgram
from zoo_compute.chain.views import JobView
from zoo_compute.client.results import TIMEOUT_S, load_checkpoint, manifest_of, module_tensors
from zoo_compute.errors import UserError
from zoo_compute.store import ContentMissing, ContentTampered, Store
from zoo_compute.training.examples import TOKENS, batch_of
from zoo_compute.training.heldout import heldout_batches
from zoo_compute.training.rounds import begin
from zoo_compute.training.shapes import batch_mismatch

MAX_DATA_BYTES = 2**34

# Of the module's tensors by name and the held-out examples (`tokens`, or `inputs` and `targets`): a number, or some by name.
Metric = Callable[[dict[str, Any], dict[str, Any]], float | Mapping[str, float]]


@dataclass(frozen=True)
class Evaluation:
    """A checkpoint on the held-out examples. round: rounds done. loss: None if nobody serves the checkpoint any more.

    perplexity: of tokens, exp(loss), which means what it says where the loss is a mean cross entropy in nats. accuracy: share of tokens
    that a causal model of `transformers` puts first; None for other modules. metrics: of the caller's function, by name.
    """

    round: int
    root: str
    loss: float | None
    perplexity: float | None
    accuracy: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


class Heldout:
    """A job's program on its held-out examples, on this machine. Raises UserError, ContentMissing, ContentTampered."""

    def __init__(self, view: JobView, store: Store) -> None:
        self.manifest = manifest_of(view, store)
        if self.manifest.heldout is None:
            raise UserError(f"job {view.job} maps a module over items: it trains nothing, and has no held-out examples")
        program, heldout = self.manifest.program.cid, self.manifest.heldout.cid
        try:
            self._step = encoding.decode(store.read(program, max_bytes=encoding.MAX_BYTES, timeout_s=TIMEOUT_S))
            self.examples = files.parse_state(store.read(heldout, max_bytes=MAX_DATA_BYTES, timeout_s=TIMEOUT_S))
        except (BadProgram, files.FileRefused) as error:
            raise ContentTampered(f"job {view.job} has a file that is not what it should be: {error}") from error
        mismatch = batch_mismatch(self.examples, self._step, self.manifest.batch_size, self.manifest.accumulate)
        if mismatch:
            raise ContentTampered(f"job {view.job} has held-out examples that do not fit its program: {mismatch}")
        try:
            self._runner = backend.prepare(self._step)
        except backend.NoBackend as error:
            raise UserError(
                f"the loss cannot be computed here: {error}", hint="pip install 'zoo-compute[node]'"
            ) from error
        accumulate = self.manifest.accumulate
        indices = heldout_batches(self.manifest, self.examples)
        self._batches = [batch_of(self.examples, index, accumulate) for index in indices]

    def loss(self, checkpoint: Mapping[str, Any]) -> float:
        """The mean over batches."""
        begin(self._step, self._runner.state, checkpoint)
        threads = os.cpu_count() or 1
        return sum(self._runner.loss(batch, threads=threads) for batch in self._batches) / len(self._batches)


def evaluate(view: JobView, store: Store, rounds: Iterable[int], metric: Metric | None = None) -> Iterator[Evaluation]:
    """Fetch each checkpoint, compare it with the chain, and compute its loss. Raises UserError, ContentMissing, ContentTampered."""
    from zoo_compute.huggingface.accuracy import accuracy_of
    from zoo_compute.jobs.model_record import record_folder

    heldout = Heldout(view, store)
    for round_ in rounds:
        loss = perplexity = accuracy = None
        metrics: Mapping[str, float] = {}
        try:
            checkpoint = load_checkpoint(view, store, round_)
        except ContentMissing:  # only every `checkpoint.interval` steps one is kept after the job
            pass
        else:
            loss, tensors = heldout.loss(checkpoint), module_tensors(checkpoint)
            if TOKENS in heldout.examples:
                perplexity = math.exp(min(loss, 700.0))
                accuracy = accuracy_of(record_folder(heldout.manifest), tensors, heldout.examples[TOKENS])
            metrics = {} if metric is None else _measured(metric, tensors, heldout.examples)
        root = "0x" + view.checkpoint_roots[round_].hex()
        yield Evaluation(round_, root, loss, perplexity, accuracy, metrics)


def load_metric(reference: str) -> Metric:
    """The function `FILE.py:NAME` or `package.module:NAME`. Raises UserError."""
    from zoo_compute.jobs.model_source import load_function

    if ":" not in reference:
        raise UserError(f"the metric {reference!r} names no function", hint="give FILE.py:FUNCTION")
    try:
        return load_function(reference, Path())
    except UserError as error:
        raise UserError(str(error).replace("model.module", "the metric", 1), hint=error.hint) from error


def _measured(metric: Metric, tensors: dict[str, Any], heldout: dict[str, Any]) -> dict[str, float]:
    name = getattr(metric, "__name__", "metric")
    try:
        measured = metric(tensors, heldout)
        return {
            key: float(value)
            for key, value in (measured if isinstance(measured, Mapping) else {name: measured}).items()
        }
    except Exception as error:
        hint = "it takes the module's tensors and the held-out examples, and returns a number or a dict of numbers"
        raise UserError(f"the metric {name} failed: {type(error).__name__}: {error}", hint=hint) from error
