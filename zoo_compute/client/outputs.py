"""The outputs of a map job, verified against the claims on chain, round after round in the order of the items."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from repops import encoding
from repops.commitments import Array
from repops.files import load_state, save_state, write_file
from repops.graph import OUTPUTS, BadProgram, Graph
from zoo_compute.chain.views import Commit, JobView
from zoo_compute.client.results import TIMEOUT_S, manifest_of
from zoo_compute.codec import BadUpdateFile, files
from zoo_compute.codec.files import UpdateLayout
from zoo_compute.errors import UserError
from zoo_compute.formats.bundles import MAX_BUNDLE_BYTES, BadRecord, Bundle, SlotResult
from zoo_compute.formats.manifest import Manifest
from zoo_compute.store import ContentTampered, Store, raw_cid
from zoo_compute.training.examples import ARRAY_SUFFIXES

if TYPE_CHECKING:
    from zoo_compute.jobs.generation import Generation

TEXTS = ".jsonl"  # ends the name of a file of generated texts


@dataclass(frozen=True)
class MappedRound:
    """first: the number of its first item; outputs: by name, (items, ...)."""

    round: int
    first: int
    outputs: dict[str, Array]


class Outputs:
    """Reads what a map job made. Raises UserError for a job that trains; ContentMissing, ContentTampered."""

    def __init__(self, view: JobView, store: Store) -> None:
        self._store, self._view = store, view
        self.manifest: Manifest = manifest_of(view, store)
        if not self.manifest.is_map:
            raise UserError(
                f"job {view.job} trains a model: it has no outputs",
                hint=f"fetch the model with `zoo job result {view.job}`",
            )

    @cached_property
    def graph(self) -> Graph:
        cid = self.manifest.program.cid
        try:
            graph = encoding.decode(self._store.read(cid, max_bytes=encoding.MAX_BYTES, timeout_s=TIMEOUT_S))
        except BadProgram as error:
            raise ContentTampered(f"the program of job {self._view.job} is none: {error}") from error
        if encoding.root(graph) != self.manifest.program_root:
            raise ContentTampered(f"the program of job {self._view.job} ({cid}) is not what its manifest names")
        return graph

    @property
    def items(self) -> int:
        return self.manifest.data.examples

    def of_round(self, view: JobView, round_: int) -> MappedRound:
        """What a closed round made of its items. view: in which the round is closed."""
        aggregation = view.checkpoint_of(round_ + 1)
        assert aggregation is not None, "every round that is done has its aggregation"
        commits, start = view.committed(aggregation.turn), aggregation.start_root
        entries: dict[int, SlotResult] = {}
        for commit in set(commits.values()):
            entries |= self._results(commit, start)
        manifest = self.manifest
        rows = manifest.inner_steps * manifest.batch_size
        first = round_ * manifest.slots * rows
        made: dict[str, list[Array]] = {}
        for slot in range(manifest.slots):
            for name, array in self._update(entries[slot]).items():
                made.setdefault(name, []).append(array.reshape(rows, *array.shape[2:]))
        outputs = {name: np.concatenate(parts)[: self.items - first] for name, parts in made.items()}
        return MappedRound(round_, first, outputs)

    def _results(self, commit: Commit, start_root: bytes) -> dict[int, SlotResult]:
        """A claim's results by slot, from its bundle."""
        what = f"the bundle of job {self._view.job}, round {commit.round}, operator {commit.operator}"
        data = self._store.read(raw_cid(commit.bundle), max_bytes=MAX_BUNDLE_BYTES, timeout_s=TIMEOUT_S)
        try:
            bundle = Bundle.from_bytes(data)
        except BadRecord as error:
            raise ContentTampered(f"{what}: {error}") from error
        slots = [each.slot for each in bundle.results]
        if bundle.root != commit.root or slots != list(commit.slots):
            raise ContentTampered(f"{what} is not what was claimed: slots {slots}, root {bundle.root.hex()}")
        if any(each.start_root != start_root for each in bundle.results):
            raise ContentTampered(f"{what} starts from another checkpoint than its round")
        return {each.slot: each for each in bundle.results}

    def _update(self, entry: SlotResult) -> dict[str, Array]:
        layout = UpdateLayout.of(self.graph, self.manifest)
        try:
            update = files.get(self._store, entry.update, layout, timeout_s=TIMEOUT_S)
        except BadUpdateFile as error:
            raise ContentTampered(f"the outputs of slot {entry.slot} ({entry.update}): {error}") from error
        if update.tree.root != entry.update_root:
            raise ContentTampered(
                f"the outputs of slot {entry.slot} ({entry.update}) have root {update.tree.root.hex()}, claimed was "
                f"{entry.update_root.hex()}"
            )
        return dict(update.state)


def joined(rounds: Sequence[MappedRound], count: int, job: int) -> Array | dict[str, Array]:
    """What a module returned for all items: one array, or several by their names. Raises UserError if rounds are missing."""
    if len(rounds) < count:
        raise UserError(f"job {job} is over, and {len(rounds)} of its {count} rounds are final")
    whole = {name: np.concatenate([each.outputs[name] for each in rounds]) for name in rounds[0].outputs}
    return whole.get(OUTPUTS, {name.removeprefix(f"{OUTPUTS}."): array for name, array in whole.items()})


def check_path(path: Path, *, generates: bool = False) -> None:
    """That outputs, or texts, can be written there. Raises UserError."""
    suffixes = (TEXTS,) if generates else ARRAY_SUFFIXES
    if path.suffix not in suffixes:
        raise UserError(f"{path}: expected a name that ends in {' or '.join(suffixes)}")


class KeptRounds:
    """A folder of rounds of a job, each a file, so that nothing is fetched twice."""

    def __init__(self, folder: Path, job: int) -> None:
        self.folder = folder.expanduser()
        self._job = job

    def count(self) -> int:
        """The rounds that are there, from the first one on."""
        return next(round_ for round_ in itertools.count() if not self._of(round_).exists())

    def add(self, made: MappedRound) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        save_state(self._of(made.round), made.outputs)

    def read(self, round_: int) -> dict[str, Array]:
        return dict(load_state(self._of(round_)))

    def remove(self, rounds: int) -> None:
        """The first so many."""
        for round_ in range(rounds):
            self._of(round_).unlink()
        with contextlib.suppress(OSError):  # another job's rounds may be there
            self.folder.rmdir()

    def _of(self, round_: int) -> Path:
        return self.folder / f"job-{self._job}-round-{round_:05d}.safetensors"


class OutputsFile(KeptRounds):
    """A file that the outputs are written to once all are there, or of a generation the texts, a line of JSON each. Until then its rounds
    are in the folder FILE.rounds, and you can read them already.
    """

    def __init__(self, path: Path, job: int, generation: Generation | None = None) -> None:
        check_path(path, generates=generation is not None)
        self._generation = generation
        self.path = path.expanduser()
        super().__init__(self.path.with_name(f"{self.path.name}.rounds"), job)

    def finish(self, rounds: int) -> dict[str, tuple[int, ...]]:
        """Write the file of all rounds; return the shapes of its arrays by name."""
        parts = [self.read(round_) for round_ in range(rounds)]
        whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        if self._generation is not None:
            lines = [json.dumps(asdict(text), ensure_ascii=False) for text in self._generation.texts(whole[OUTPUTS])]
            write_file(self.path, "".join(f"{line}\n" for line in lines).encode())
        elif self.path.suffix == ".npz":
            stream = io.BytesIO()
            np.savez(stream, **whole)
            write_file(self.path, stream.getbuffer())
        else:
            save_state(self.path, whole)
        self.remove(rounds)
        return {name: array.shape for name, array in whole.items()}
