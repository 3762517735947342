"""A job's checkpoints, verified against the roots on chain before use."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repops import commitments, files
from repops.commitments import Array
from zoo_compute.chain.views import JobView
from zoo_compute.errors import UserError
from zoo_compute.formats.bundles import MAX_POINTER_BYTES, BadRecord, Pointer
from zoo_compute.formats.manifest import MAX_MANIFEST_BYTES, Manifest
from zoo_compute.store import ContentTampered, Store, raw_cid
from zoo_compute.training.outer_optimizers import OUTER

if TYPE_CHECKING:
    from zoo_compute.chain.network import Network
    from zoo_compute.client.progress import Progress

TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Result:
    """A verified checkpoint. final: the challenge window of every claim it depends on is over. cid, pointer: of several aggregators each
    one's, with commas.
    """

    path: Path
    job: int
    round: int  # rounds done
    rounds: int
    root: str
    cid: str  # of the file of the whole checkpoint, or of each share
    pointer: str
    final: bool
    parameters: int


def fetch_result(view: JobView, store: Store, path: Path, *, whole: bool = False) -> Result:
    """Download and verify the newest checkpoint of a job. Write its parameters, or all of it if `whole`, to `path` atomically."""
    done = view.completed_rounds
    if done == 0:
        raise UserError(
            f"job {view.job} has no checkpoint yet: it is {view.state.name.lower()}",
            hint="it was cancelled before the first round ended"
            if view.over
            else f"follow it with `zoo job watch {view.job}`",
        )
    files_of = _files_of(view, store, done)
    path = path.expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".zoo-", dir=path.parent) as folder:
        whole_file = Path(folder) / "checkpoint.safetensors"
        checkpoint = _checkpoint(view, store, files_of, whole_file)
        parameters = module_tensors(checkpoint)
        if whole and len(files_of) == 1:
            whole_file.replace(path)
        else:
            files.save_state(path, checkpoint if whole else parameters)
    path.chmod(0o644)  # public anyway
    return Result(
        path=path,
        job=view.job,
        round=done,
        rounds=view.terms.rounds,
        root="0x" + view.checkpoint_roots[done].hex(),
        cid=",".join(each.cid for each in files_of),
        pointer=",".join(map(raw_cid, view.checkpoint_cids[done])),
        final=view.final_rounds == done,
        parameters=sum(array.size for array in parameters.values()),
    )


def write_pretrained(
    view: JobView,
    store: Store,
    folder: Path,
    model: str | Path | None,
    progress: Progress | None,
    network: Network,
    *,
    merge: bool = False,
) -> Result:
    """Download and verify the newest checkpoint of a job. Write it as a folder of `transformers` or `peft`, all of it or nothing.

    model: where configuration and tokenizer are; None: what was recorded when the job was posted. merge: see `write_folder`.
    """
    from zoo_compute.client.model_card import model_card
    from zoo_compute.huggingface.folder import write_folder
    from zoo_compute.huggingface.lora import describe
    from zoo_compute.huggingface.places import Place, place_of
    from zoo_compute.jobs.model_record import names_of, record_folder

    manifest, folder = manifest_of(view, store), folder.expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already, and not empty", hint="name another folder")
    recorded = record_folder(manifest)
    if model is None and not recorded.is_dir():
        raise UserError(
            f"job {view.job} was not posted from this machine, or is of no model of transformers",
            hint="--model FOLDER names the model that it started from: its config.json and tokenizer",
        )
    source = Place(f"job {view.job}", str(recorded)) if model is None else place_of(str(model), Path(), "--model")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".zoo-", dir=folder.parent) as temporary:
        made = Path(temporary) / "model"
        result = fetch_result(view, store, Path(temporary) / "model.safetensors")
        tensors, names = files.load_state(result.path), names_of(manifest)
        write_folder(source, tensors, made, merge=merge, base=names.get("model", ""))
        assert progress is not None, "there is a checkpoint"
        adapter = describe(tensors, merge=merge)
        card = model_card(folder.name, result, manifest, progress, network, names, adapter)
        (made / "README.md").write_text(card)
        made.replace(folder)
    return replace(result, path=folder)


def module_tensors(checkpoint: Mapping[str, Array]) -> dict[str, Array]:
    """The module's tensors of a checkpoint, without the outer optimiser's state."""
    return {name: array for name, array in checkpoint.items() if not name.startswith(OUTER)}


def load_checkpoint(view: JobView, store: Store, round_: int) -> dict[str, Array]:
    """The checkpoint that `round_` starts from, 0 the initial state. Raises ContentTampered; the store's errors pass."""
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        return _checkpoint(view, store, _files_of(view, store, round_), Path(folder) / "checkpoint.safetensors")


def manifest_of(view: JobView, store: Store, *, timeout_s: float = TIMEOUT_S) -> Manifest:
    """A job's manifest. Raises JobError; the store's errors pass."""
    cid = raw_cid(view.terms.manifest)
    return Manifest.from_bytes(store.read(cid, max_bytes=MAX_MANIFEST_BYTES, timeout_s=timeout_s))


class StateFile(NamedTuple):
    """Of a checkpoint, or of one aggregator's share of it."""

    cid: str
    root: bytes


def _files_of(view: JobView, store: Store, round_: int) -> list[StateFile]:
    """The files of the checkpoint that `round_` starts from."""
    if round_ == 0:
        return [StateFile(manifest_of(view, store).state.cid, view.checkpoint_roots[0])]
    return [StateFile(each.state, each.root) for each in pointers_of(view, store, round_, timeout_s=TIMEOUT_S)]


def _checkpoint(view: JobView, store: Store, files_of: Sequence[StateFile], path: Path) -> dict[str, Array]:
    """All tensors of a checkpoint. Every file is written to `path` in its turn."""
    whole: dict[str, Array] = {}
    for cid, root in files_of:
        whole |= _state(view, store, cid, root, path)
    return whole


def _state(view: JobView, store: Store, cid: str, root: bytes, path: Path) -> dict[str, Array]:
    store.get(cid, path, timeout_s=TIMEOUT_S)
    try:
        state = files.load_state(path)
    except files.FileRefused as error:
        raise ContentTampered(f"the checkpoint of job {view.job} ({cid}) is not a state file: {error}") from error
    computed = commitments.state_root(state)
    if computed != root:
        raise ContentTampered(
            f"the checkpoint of job {view.job} ({cid}) has root {computed.hex()}, the chain says {root.hex()}: "
            "the publisher published other weights than it committed to"
        )
    return state


def pointers_of(view: JobView, store: Store, round_: int, *, timeout_s: float) -> list[Pointer]:
    """The pointers to the checkpoint that `round_` starts from, one an aggregator, checked against the chain. Raises ContentTampered; the
    store's errors pass.
    """
    cids, made = view.checkpoint_cids[round_], view.made_checkpoint(round_)
    roots = [each.root for each in made] or [view.checkpoint_roots[round_]]
    return [_pointer(view, store, round_, raw_cid(cid), root, timeout_s) for cid, root in zip(cids, roots, strict=True)]


def _pointer(view: JobView, store: Store, done: int, cid: str, root: bytes, timeout_s: float) -> Pointer:
    try:
        pointer = Pointer.from_bytes(store.read(cid, max_bytes=MAX_POINTER_BYTES, timeout_s=timeout_s))
    except BadRecord as error:
        raise ContentTampered(f"the checkpoint pointer {cid} is not a pointer: {error}") from error
    expected = (view.job, done - 1, root)
    if (pointer.job, pointer.round, pointer.root) != expected:
        raise ContentTampered(
            f"the checkpoint pointer {cid} is of job {pointer.job}, round {pointer.round}, root {pointer.root.hex()}; "
            f"expected job {view.job}, round {done - 1}, root {root.hex()}"
        )
    return pointer
