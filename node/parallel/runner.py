"""Ranks behind the interface of `backend.Runner`: the state lies with them, and is fetched or sent when it is touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np

from node.parallel.ranks import ANSWER_S, Ranks
from repops.backend import DTYPE, check_batch
from repops.commitments import DTYPE_CODES, Array
from repops.graph import Graph
from repops.parallel.placement import PlacedProgram
from repops.parallel.rank import rank_parts
from repops.parallel.roots import Leaves, combine_root


class RankedRunner:
    """See `backend.Runner`; there is no trace of values that lie on several ranks."""

    def __init__(self, graph: Graph, placed: PlacedProgram, *, threads: int = 1, timeout_s: float = ANSWER_S) -> None:
        """threads: of all ranks together."""
        self.graph, self._pieces = graph, placed.pieces
        owner = {entry.name: placed.owner[entry.before] for entry in placed.graph.state}
        self._owners = {
            name: [rank for piece in pieces if (rank := owner[piece.entry]) is not None]
            for name, pieces in placed.pieces.items()
        }
        self.ranks = Ranks(rank_parts(placed), threads=max(1, threads // placed.ranks), timeout_s=timeout_s)
        self._batch_names: list[set[str]] = self.ranks.ask("batch_names")
        # Tensors that are fetched as numpy reads them, and sent as it writes into them.
        self.state = cast(dict[str, Array], _State(self, graph))

    def step(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        return self._run("step", batch)

    def rest(self) -> None:
        """Keeps its memory."""

    def loss(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        return self._run("loss", batch)

    def trace(self, batch: Mapping[str, Array], *, threads: int = 1) -> list[Array]:
        raise NotImplementedError("ranks keep no values of a step; trace in one process")

    def _run(self, what: str, batch: Mapping[str, Array]) -> float:
        arrays = check_batch(self.graph, batch)
        asked = {
            rank: ({name: array for name, array in arrays.items() if name in names},)
            for rank, names in enumerate(self._batch_names)
        }
        losses: list[float | None] = self.ranks.ask_each(what, asked)
        return next(loss for loss in losses if loss is not None)

    def memory(self) -> list[dict[str, int]]:
        """Bytes of each rank, by what they are for."""
        return self.ranks.ask("memory")

    def read(self, name: str) -> Array:
        answers = self.ranks.ask_each("read", dict.fromkeys(sorted(set(self._owners[name])), (name,)))
        pieces = sorted((piece for answer in answers for piece in answer), key=lambda piece: piece[0])
        return cast(Array, pieces[0][1]) if len(pieces) == 1 else np.concatenate([array for _, array in pieces])

    def write(self, name: str, array: Array) -> None:
        """An array of one element fills the tensor."""
        sent: dict[int, tuple[str, list[Array]]] = {}
        for rank, piece in zip(self._owners[name], self._pieces[name], strict=True):
            rows = array[piece.start : piece.stop] if array.ndim else array
            sent.setdefault(rank, (name, []))[1].append(rows)
        self.ranks.ask_each("write", sent)

    def tensor_roots(self) -> dict[str, bytes]:
        """Each rank hashes what it holds; roots of what lies on several are put together here."""
        whole = {name for name, pieces in self._pieces.items() if len(pieces) == 1}
        out: dict[str, bytes] = {}
        runs: dict[str, list[tuple[int, Leaves]]] = {}
        for answer in self.ranks.ask("roots", whole):
            for name, roots in answer.items():
                if isinstance(roots, bytes):
                    out[name] = roots
                else:
                    runs.setdefault(name, []).extend(roots)
        for entry in self.graph.state:
            if entry.name in runs:
                node = self.graph.nodes[entry.before]
                ordered = [leaves for _, leaves in sorted(runs[entry.name], key=lambda run: run[0])]
                out[entry.name] = combine_root(DTYPE_CODES[DTYPE[node.dtype].name], node.shape, ordered)
        return out


class _State(Mapping[str, "_Tensor"]):
    def __init__(self, runner: RankedRunner, graph: Graph) -> None:
        self._tensors = {entry.name: _Tensor(runner, entry.name) for entry in graph.state}

    def __getitem__(self, name: str) -> _Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


class _Tensor:
    """As much of an array as who loads, reads and compares a state needs."""

    def __init__(self, runner: RankedRunner, name: str) -> None:
        self._runner, self._name = runner, name

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._runner.read(self._name), dtype=dtype)

    def __setitem__(self, place: Any, value: Any) -> None:
        if place is not Ellipsis:
            raise TypeError("a tensor on ranks is written as a whole: tensor[...] = value")
        self._runner.write(self._name, np.asarray(value))

    def copy(self) -> Array:
        return self._runner.read(self._name)

    def __ne__(self, other: object) -> Any:
        return self._runner.read(self._name) != other

    __hash__ = None  # type: ignore[assignment]
