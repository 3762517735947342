"""What a job trained: the newest checkpoint, proved against the root on chain before a byte of it is used."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from repops import commitments, files
from zoo_compute.chain.views import JobView
from zoo_compute.errors import UserError
from zoo_compute.outer import OUTER
from zoo_compute.records import MAX_POINTER_BYTES, BadRecord, Pointer
from zoo_compute.store import ContentTampered, Store, raw_cid

TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Result:
    """A verified checkpoint. final: every claim it stands on is past its challenge window."""

    path: Path
    job: int
    round: int  # rounds done
    rounds: int
    root: str
    cid: str  # of the whole checkpoint file
    pointer: str
    final: bool
    parameters: int


def fetch(view: JobView, store: Store, path: Path, *, whole: bool = False) -> Result:
    """Download and verify the newest checkpoint of a job; write its parameters (or all of it) to `path`, atomically."""
    done = view.done
    if done == 0:
        raise UserError(
            f"job {view.job} has no checkpoint yet: it is {view.state.name.lower()}",
            hint="it was cancelled before the first round ended"
            if view.over
            else f"follow it with `zoo job watch {view.job}`",
        )
    root = view.checkpoint_roots[done]
    pointer_cid = raw_cid(view.checkpoint_cids[done])
    state_cid = pointer_of(view, store, timeout_s=TIMEOUT_S).state
    path = path.expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".zoo-", dir=path.parent) as folder:
        whole_file = store.get(state_cid, Path(folder) / "checkpoint.safetensors", timeout_s=TIMEOUT_S)
        try:
            state = files.load_state(whole_file)
        except files.FileRefused as error:
            raise ContentTampered(
                f"the checkpoint of job {view.job} ({state_cid}) is no state file: {error}"
            ) from error
        found = commitments.state_root(state)
        if found != root:
            raise ContentTampered(
                f"the checkpoint of job {view.job} ({state_cid}) has root {found.hex()}, the chain says {root.hex()}: "
                "the aggregator published other weights than it committed to"
            )
        parameters = {name: array for name, array in state.items() if not name.startswith(OUTER)}
        if whole:
            whole_file.replace(path)
        else:
            files.save_state(path, parameters)
    return Result(
        path=path,
        job=view.job,
        round=done,
        rounds=view.terms.rounds,
        root="0x" + root.hex(),
        cid=state_cid,
        pointer=pointer_cid,
        final=view.final_rounds == done,
        parameters=sum(array.size for array in parameters.values()),
    )


def pointer_of(view: JobView, store: Store, *, timeout_s: float) -> Pointer:
    """The pointer to the newest checkpoint, checked against the chain. Raises ContentTampered; the store's errors pass."""
    done, cid = view.done, raw_cid(view.checkpoint_cids[view.done])
    try:
        pointer = Pointer.from_bytes(store.read(cid, max_bytes=MAX_POINTER_BYTES, timeout_s=timeout_s))
    except BadRecord as error:
        raise ContentTampered(f"the checkpoint pointer {cid} is no pointer: {error}") from error
    expected = (view.job, done - 1, view.checkpoint_roots[done])
    if (pointer.job, pointer.round, pointer.root) != expected:
        raise ContentTampered(
            f"the checkpoint pointer {cid} is of job {pointer.job}, round {pointer.round}, root {pointer.root.hex()}; "
            f"expected job {view.job}, round {done - 1}, root {expected[2].hex()}"
        )
    return pointer
