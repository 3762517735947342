"""The loss of a job's checkpoints on its held-out examples, computed here: nothing that a node reports is believed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from repops import backend, encoding, files
from repops.graph import BadProgram
from zoo_compute.chain.views import JobView
from zoo_compute.client.results import TIMEOUT_S, load_checkpoint, manifest_of
from zoo_compute.errors import UserError
from zoo_compute.store import ContentMissing, ContentTampered, Store
from zoo_compute.training.examples import TOKENS, batch_of
from zoo_compute.training.heldout import heldout_batches
from zoo_compute.training.rounds import begin
from zoo_compute.training.shapes import batch_mismatch

MAX_DATA_BYTES = 2**34


@dataclass(frozen=True)
class Evaluation:
    """A checkpoint on the held-out examples. round: rounds done. loss: None if nobody serves the checkpoint any more.

    perplexity: of tokens, exp(loss), which means what it says where the loss is a mean cross entropy in nats.
    """

    round: int
    root: str
    loss: float | None
    perplexity: float | None


def evaluate(view: JobView, store: Store, rounds: Iterable[int]) -> Iterator[Evaluation]:
    """Fetch each checkpoint, compare it with the chain, and compute its loss. Raises UserError, ContentMissing, ContentTampered."""
    manifest = manifest_of(view, store)
    try:
        data = store.read(manifest.program.cid, max_bytes=encoding.MAX_BYTES, timeout_s=TIMEOUT_S)
        step = encoding.decode(data)
        heldout = files.parse_state(store.read(manifest.heldout.cid, max_bytes=MAX_DATA_BYTES, timeout_s=TIMEOUT_S))
    except (BadProgram, files.FileRefused) as error:
        raise ContentTampered(f"job {view.job} has a file that is not what it should be: {error}") from error
    mismatch = batch_mismatch(heldout, step, manifest.batch_size, manifest.accumulate)
    if mismatch:
        raise ContentTampered(f"job {view.job} has held-out examples that do not fit its program: {mismatch}")
    try:
        runner = backend.prepare(step)
    except backend.NoBackend as error:
        raise UserError(f"the loss cannot be computed here: {error}", hint="pip install 'zoo-compute[node]'") from error
    batches = [batch_of(heldout, index, manifest.accumulate) for index in heldout_batches(manifest, heldout)]
    threads = os.cpu_count() or 1
    for round_ in rounds:
        loss = perplexity = None
        try:
            checkpoint = load_checkpoint(view, store, round_)
        except ContentMissing:  # only every `checkpoint.interval` steps one is kept after the job
            pass
        else:
            begin(step, runner.state, checkpoint)
            loss = sum(runner.loss(batch, threads=threads) for batch in batches) / len(batches)
            perplexity = math.exp(min(loss, 700.0)) if TOKENS in heldout else None
        yield Evaluation(round_, "0x" + view.checkpoint_roots[round_].hex(), loss, perplexity)
