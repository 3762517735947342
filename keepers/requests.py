"""What a keeper asks of its workers: names (asking twice is asking once) and requests in plain JSON.

A request carries everything a worker needs and nothing it could be robbed of: content addresses, roots, numbers.
"""

from __future__ import annotations

from typing import Any

from keepers.duties import present_mask
from zoo_compute.chain.views import JobView, Run
from zoo_compute.spec.bits import slots_in
from zoo_compute.store.cid import raw_cid


def checkpoint_of(view: JobView, round_: int) -> str | None:
    """CID of the pointer to the checkpoint that `round_` starts from; None for the initial state."""
    found = [c for c in view.checkpoints if c.round == round_ - 1]
    return raw_cid(found[-1].cid) if found else None


def _base(view: JobView, round_: int) -> dict[str, Any]:
    return {
        "job": view.job,
        "manifest": raw_cid(view.terms.manifest),
        "round": round_,
        "checkpoint": checkpoint_of(view, round_),
        "start_root": view.checkpoint_roots[round_].hex(),
        "program_root": view.terms.program_root.hex(),
        "data_root": view.terms.data_root.hex(),
    }


def _run(view: JobView) -> Run:
    assert view.run is not None, "work is asked for after the award"
    return view.run


PREPARE = "prepare-"


def prepare_name(view: JobView) -> str:
    return f"{PREPARE}{view.job}-{view.terms.manifest.hex()[:16]}"


def prepare_request(view: JobView) -> dict[str, Any]:
    return _base(view, 0)


def train_name(view: JobView, slot: int) -> str:
    round_ = _run(view).round
    return f"train-{view.job}-{round_}-{slot}-{view.checkpoint_roots[round_].hex()[:16]}"


def train_request(view: JobView, slot: int) -> dict[str, Any]:
    return {**_base(view, _run(view).round), "slot": slot}


def aggregate_name(view: JobView) -> str:
    run = _run(view)
    return f"aggregate-{view.job}-{run.round}-{present_mask(run):x}-{view.checkpoint_roots[run.round].hex()[:16]}"


def aggregate_request(view: JobView) -> dict[str, Any]:
    """The open round's committed bundles, each with the root and slots it must prove, in slot order."""
    run = _run(view)
    commits = sorted((c for c in view.commits if c.round == run.round), key=lambda c: c.key)
    bundles = [
        {"bundle": raw_cid(c.bundle), "root": c.root.hex(), "operator": c.operator, "slots": list(slots_in(c.bitmap))}
        for c in commits
    ]
    return {**_base(view, run.round), "mask": present_mask(run), "bundles": bundles}


def verify_name(view: JobView, round_: int, slot: int) -> str:
    return f"verify-{view.job}-{round_}-{slot}"


def verify_request(view: JobView, round_: int, slot: int) -> dict[str, Any]:
    commit = view.committed(round_)[slot]
    return {
        **_base(view, round_),
        "slot": slot,
        "operator": commit.operator,
        "bundle": raw_cid(commit.bundle),
        "root": commit.root.hex(),
    }


def keep_name(view: JobView) -> str:
    return f"keep-{view.job}-{view.checkpoint_cid.hex()[:16]}"


def keep_request(view: JobView) -> dict[str, Any]:
    """The newest checkpoint."""
    return {"job": view.job, "manifest": raw_cid(view.terms.manifest), "checkpoint": raw_cid(view.checkpoint_cid)}
