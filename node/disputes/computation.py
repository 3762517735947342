"""What one side computed, as far as a dispute asks: states, traces, tensors, parts. Made again when it is asked for.

Of a slot-round from the job: manifest, step program, examples; from the claim: its checkpoint, round and slot. With a folder,
what took long is kept there: roots of states and of traces, and the states that a step or a segment is repeated from.
"""

from __future__ import annotations

import json
import logging
import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from node.backends import on_switch
from node.compute.programs import Programs, State, Tensors
from node.device import runner
from node.disputes.element_words import words_of_parts
from node.hardware import CPU, Device, threads
from repops import backend, streaming
from repops.commitments import Array, sorted_names, state_leaves, state_root_of, tensor_roots
from repops.files import load_state, save_state, write_file
from repops.graph import RATE, SEED, STATE_ROLE, Graph
from repops.merkle import merkle_proof
from repops.pieces import PiecedTensor
from zoo_compute.disputes.evidence import Begin, Data, Entry, Evidence, Tensor, TensorTree, WholeTensor, words_of
from zoo_compute.formats.manifest import Manifest
from zoo_compute.spec.state import Claim
from zoo_compute.training.examples import TARGETS, TOKENS, ExampleRows, Rows, batch_of
from zoo_compute.training.rounds import batch_nodes
from zoo_compute.training.shares import SharedCheckpoint, SharedRoots

if TYPE_CHECKING:
    from node.disputes.previous_turn import PreviousTurn

log = logging.getLogger("zoo.disputes")

Roots = Mapping[str, bytes]  # of a state's tensors, by name
KEPT_GRAPHS = 2  # whose pieces stay ready to run: a job's step and its aggregation
KEPT_STATES = 3  # of a slot-round, beside those that a dispute asks for: no step is then further than a quarter of it


_pieces: OrderedDict[tuple[int, str], tuple[Graph, streaming.KeptPieces]] = OrderedDict()
on_switch(_pieces.clear)


def pieces_of(graph: Graph, device: Device) -> streaming.KeptPieces | None:
    """Pieces of a graph that are ready to run, whoever computes it; none on a GPU, whose memory is a step's."""
    if device.type == "cuda":
        return None
    key = id(graph), backend.current()
    if key not in _pieces:
        _pieces[key] = graph, streaming.KeptPieces()  # the graph lives as long as its key
    _pieces.move_to_end(key)
    while len(_pieces) > KEPT_GRAPHS:
        _pieces.popitem(last=False)
    return _pieces[key][1]


class DisputedWord(NamedTuple):
    """A word of an input that is disputed, as evidence takes it."""

    descriptor: bytes
    entry: Entry
    leaf: bytes
    element: int


def tensor_in(roots: Roots, name: str) -> Tensor:
    """A tensor of a state with its path."""
    if isinstance(roots, SharedRoots):
        return Tensor(roots[name], *roots.path(name))
    at = sorted_names(roots).index(name)
    return Tensor(roots[name], at, tuple(merkle_proof(state_leaves(roots), at)))


class ComputationFolder:
    """What is kept of one computation between restarts; with no path, hashes in memory.

    Whoever made it may remove it at any time, and its disk may be full: what is not there, or cannot be read, is computed again.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._hashes: dict[str, list[bytes]] = {}

    def hashes(self, name: str, make: Callable[[], list[bytes]]) -> list[bytes]:
        """The list kept under this name, else the one that is made now."""
        if name not in self._hashes:
            made = self._listed(name)
            if made is None:
                made = make()
                text = json.dumps([each.hex() for each in made])
                self._write(f"{name}.json", lambda file: write_file(file, text.encode()))
            self._hashes[name] = made
        return self._hashes[name]

    def keep(self, name: str, state: Mapping[str, Array]) -> None:
        if self._path is not None and not self._state(name).exists():
            self._write(self._state(name).name, lambda file: save_state(file, state))

    def kept(self, name: str) -> State | None:
        if self._path is None:
            return None
        try:
            return load_state(self._state(name))
        except (OSError, ValueError):
            with suppress(OSError):
                self._state(name).unlink()  # torn: the next one that is kept takes its place
            return None

    def steps(self) -> list[int]:
        """Of which states are kept."""
        files = [] if self._path is None else self._path.glob("state-*.safetensors")
        return sorted(int(file.stem.removeprefix("state-")) for file in files)

    def _listed(self, name: str) -> list[bytes] | None:
        if self._path is None:
            return None
        try:
            return [bytes.fromhex(each) for each in json.loads((self._path / f"{name}.json").read_text())]
        except (OSError, ValueError):
            return None

    def _write(self, name: str, write: Callable[[Path], None]) -> None:
        """An answer does not wait for room on a disk."""
        if self._path is None:
            return
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            write(self._path / name)
        except OSError as error:
            log.warning("%s: %s; it will be made again", self._path / name, error)

    def _state(self, name: str) -> Path:
        assert self._path is not None
        return self._path / f"{name}.safetensors"


class Computation(ABC):
    """Steps of one program, each from a state and a batch. checkpoint: what the claim starts from."""

    def __init__(self, graph: Graph, checkpoint: Tensors, *, folder: Path | None = None, device: Device = CPU) -> None:
        self.graph, self.checkpoint, self.device = graph, checkpoint, device
        self.folder = ComputationFolder(folder)
        self._kept_tensors: tuple[tuple[int, int], dict[int, Array]] = ((-1, -1), {})

    @abstractmethod
    def step_inputs(self, step: int) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        """The state and the batch of a step."""

    @abstractmethod
    def after(self, step: int) -> Roots:
        """The tensors' roots of the state after a step; of the state at step 0 for -1."""

    @abstractmethod
    def source(self, role: int, name: str, step: int) -> Roots:
        """The state that an input of a step comes from, as `after`; none where it is no state's."""

    @abstractmethod
    def word_evidence(self, step: int, name: str, asked: DisputedWord) -> Evidence:
        """Of a word of a batch that is no state's."""

    def carried_evidence(self, zero: Begin, name: str, claim: Claim) -> Begin:
        """What a private entry of the state at step 0 is in this claim. zero: evidence that it is nothing."""
        return zero

    @cached_property
    def checkpoint_roots(self) -> Roots:
        if isinstance(self.checkpoint, SharedCheckpoint):
            return SharedRoots(tuple(tensor_roots(share, threads=threads()) for share in self.checkpoint.shares))
        return tensor_roots(self.checkpoint, threads=threads())

    def state_roots(self, steps: Sequence[int]) -> list[bytes]:
        """The roots of the states after so many steps each, ascending."""
        return [state_root_of(self.after(step - 1)) for step in steps]

    def trace(self, step: int) -> list[bytes]:
        """The root of every node's tensor."""
        return self.folder.hashes(f"trace-{step}", lambda: self._trace(step))

    def _trace(self, step: int) -> list[bytes]:
        return [tensor_roots({"": value}, threads=threads())[""] for _, value in self.values(step)]

    def tensors(self, step: int, node: int) -> dict[int, Array]:
        """The value of a node, and of those that it reads. What was asked for last stays in memory."""
        if self._kept_tensors[0] != (step, node):
            wanted = {node, *(operand.node for operand in self.graph.nodes[node].operands)}
            tensors = {at: np.array(value) for at, value in self.values(step, sorted(wanted)) if at in wanted}
            self._kept_tensors = ((step, node), tensors)
        return self._kept_tensors[1]

    def values(self, step: int, wanted: Sequence[int] | None = None) -> streaming.Values:
        """As `repops.streaming.values`, of one step."""
        prepare = partial(runner, device=self.device)
        kept = pieces_of(self.graph, self.device)
        inputs = self.step_inputs(step)
        return streaming.values(self.graph, *inputs, wanted=wanted, prepare=prepare, threads=threads(), kept=kept)

    def parts(self, step: int, node: int, element: int) -> Array:
        """The words of the parts of an element, the last one as it is committed."""
        return words_of_parts(self.graph, node, element, self.tensors(step, node))


class Training(Computation):
    """Steps of training, one after another. programs: this computation's own, since it holds one state at a time.

    The state is moved forwards from the nearest one that is kept.
    """

    def __init__(self, programs: Programs, checkpoint: Tensors, *, folder: Path | None = None) -> None:
        super().__init__(programs.graph, checkpoint, folder=folder, device=programs.device)
        self.programs = programs
        self._at: int | None = None

    @abstractmethod
    def batch(self, step: int) -> State:
        """What the step learns from."""

    @abstractmethod
    def begin(self) -> None:
        """To the state at step 0."""

    def state(self, step: int) -> State:
        """The state after so many steps: the program's own memory, good until another one is asked for."""
        start = max((at for at in self.folder.steps() if at <= step), default=0)
        if self._at is None or not start <= self._at <= step:
            kept = self.folder.kept(f"state-{start}")
            if kept is None:
                self.begin()
            else:
                self.programs.load(kept)
            self._at = start if kept is not None else 0
        while self._at < step:
            self.advance(self._at)
            self._at += 1
        return self.programs.step.state

    def advance(self, step: int) -> None:
        """From the state at a step to the next."""
        self.programs.advance(self.batch(step))

    def step_inputs(self, step: int) -> tuple[Tensors, State]:
        state = self.state(step)
        if step:
            self.folder.keep(f"state-{step}", state)
        return state, self.batch(step)

    def after(self, step: int) -> Roots:
        self.state(step + 1)
        return self.programs.tensor_roots()

    def source(self, role: int, name: str, step: int) -> Roots:
        return self.after(step - 1) if role == STATE_ROLE else {}

    def state_roots(self, steps: Sequence[int]) -> list[bytes]:
        return self.folder.hashes(_named(steps), lambda: self._state_roots(steps))

    def _state_roots(self, steps: Sequence[int]) -> list[bytes]:
        """On the way some states are kept: what is asked next lies behind, in one segment or one step."""
        often = -(-len(steps) // (KEPT_STATES + 1)) if steps[0] == 0 else len(steps)
        roots = []
        for number, step in enumerate(steps):
            if step and number % often == 0:
                self.folder.keep(f"state-{step}", self.state(step))
            roots.append(state_root_of(self.after(step - 1)))
        return roots


class SlotRound(Training):
    """The inner steps of one slot in one round.

    carried: the private state that it begins with, where it does not begin at zero. before: of a round that is no restart, for
    evidence; who answers for a slot-round needs none.
    """

    def __init__(
        self,
        manifest: Manifest,
        programs: Programs,
        checkpoint: Tensors,
        examples: ExampleRows,
        round: int,
        slot: int,
        *,
        carried: State | None = None,
        before: PreviousTurn | None = None,
        folder: Path | None = None,
    ) -> None:
        super().__init__(programs, checkpoint, folder=folder)
        self.manifest, self.examples = manifest, examples
        self.round, self.slot = round, slot
        self.carried, self.before = carried, before

    def batch(self, step: int) -> State:
        rows = self.manifest.examples_for(self.round, self.slot, step)
        return batch_of(self.examples, rows, self.manifest.accumulate)

    def begin(self) -> None:
        self.programs.begin(self.checkpoint, self.manifest.draw_seed(self.round, self.slot), self.carried)

    def carried_evidence(self, zero: Begin, name: str, claim: Claim) -> Begin:
        if self.before is None or name == SEED:
            return zero
        return self.before.begin(zero, name, claim, self.slot)

    def word_evidence(self, step: int, name: str, asked: DisputedWord) -> Evidence:
        """The data's word: `tokens` are inputs but for the last, targets but for the first."""
        rows = self.manifest.examples_for(self.round, self.slot, step)
        nodes = batch_nodes(self.graph)
        row, within = divmod(asked.element, nodes[name].elements // len(rows))
        is_tokens = TOKENS in self.examples and name != RATE
        entry_name = TOKENS if is_tokens else name
        data = self.examples[entry_name]
        at = int(rows[row]) * math.prod(data.shape[1:]) + within + (is_tokens and name == TARGETS)
        tensor = tensor_in(self._data_roots, entry_name)
        words = words_of(_tree_of(data), at, tensor.index, tensor.path)
        return Data(asked.descriptor, asked.entry, asked.leaf, asked.element, is_tokens, words)

    @cached_property
    def _data_roots(self) -> Roots:
        arrays = {name: rows for name, rows in self.examples.items() if isinstance(rows, np.ndarray)}
        stored = {name: rows.root for name, rows in self.examples.items() if isinstance(rows, PiecedTensor)}
        return tensor_roots(arrays, threads=threads()) | stored


def _tree_of(rows: Rows) -> TensorTree:
    return rows if isinstance(rows, PiecedTensor) else WholeTensor.of(np.asarray(rows))


def _named(steps: Sequence[int]) -> str:
    return f"states-{steps[0]}-{steps[-1]}-{len(steps)}"
