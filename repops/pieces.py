"""Pieces of a state's tensors, a MiB each, with a root of each: whoever uses a few of them reads and checks no others.

A piece is a whole subtree of its tensor's Merkle tree, so the roots of all pieces lead to the state's root (docs/protocol/files.md).
"""

from __future__ import annotations

import io
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from repops.commitments import (
    DTYPE_CODES,
    LEAF_BYTES,
    Array,
    canonical,
    merkle_roots,
    sorted_names,
    state_root_of,
    tensor_head,
    tensor_leaves,
    tensor_root_of,
)
from repops.files import DTYPES, FileRefused, read_layout
from repops.merkle import NODE, PADDING, Tree, sha256

PIECE_BYTES = 1 << 20
LEAVES = PIECE_BYTES // LEAF_BYTES
HEIGHT = LEAVES.bit_length() - 1  # of a piece's tree
ROOT_BYTES = 32
KEPT = 8  # pieces of a tensor that stay in memory: the next rows are mostly in the same one

Read = Callable[[int, int], bytes]  # a file's bytes, from one place to another
Refused = Callable[[str], Exception]  # what is raised, with why


def _paddings() -> list[bytes]:
    roots = [PADDING]
    for _ in range(HEIGHT):
        roots.append(sha256(NODE + 2 * roots[-1]))
    return roots


_PADDINGS = _paddings()  # the roots of trees of padding, by height


def piece_roots(state: Mapping[str, Array]) -> bytes:
    """The roots of all pieces of a state, one after another, in ascending order of names."""
    roots = []
    for name in sorted_names(state):
        words = canonical(np.asarray(state[name])).reshape(-1).view(np.uint8)
        alone = len(words) <= PIECE_BYTES
        roots += [_root_of(words[at : at + PIECE_BYTES], alone) for at in range(0, len(words) or 1, PIECE_BYTES)]
    return b"".join(roots)


def _root_of(data: Array, alone: bool) -> bytes:
    """alone: the tensor has no other piece, and its tree is no higher than it must be."""
    (root,) = merkle_roots([data])
    if not alone:
        for level in range(_height(len(data)), HEIGHT):
            root = sha256(NODE + root + _PADDINGS[level])
    return root


def _height(nbytes: int) -> int:
    """Of the tree over the leaves of so many bytes."""
    return max(0, -(-nbytes // LEAF_BYTES) - 1).bit_length()


@dataclass
class PiecedTensor:
    """A tensor in a file, read piece by piece. Like an array it gives rows; as a tree it gives the leaves and nodes of its proofs.

    read: the file's bytes; start: of the tensor's; roots: of its pieces. Reading raises `refused` for bytes that do not lead to them.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    roots: tuple[bytes, ...]
    read: Read
    refused: Refused = FileRefused

    def __post_init__(self) -> None:
        self._pieces: OrderedDict[int, Array] = OrderedDict()
        self._newest: tuple[int, Tree] | None = None  # a piece's number and tree

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Array:
        """The rows of these numbers; of one number, that row."""
        numbers = np.asarray(index)
        rows = np.empty((numbers.size, self.row_bytes), np.uint8)
        for at, row in enumerate(numbers.reshape(-1).tolist()):
            if not 0 <= row < len(self):
                raise IndexError(f"{self.name}: row {row} of {len(self)}")
            rows[at] = self._between(row * self.row_bytes, (row + 1) * self.row_bytes)
        return rows.view(self.dtype).reshape(*numbers.shape, *self.shape[1:])

    def whole(self) -> Array:
        """All rows, in memory."""
        return self._between(0, self.nbytes).copy().view(self.dtype).reshape(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def root(self) -> bytes:
        return tensor_root_of(DTYPE_CODES[self.dtype.name], self.shape, self._above.root)

    def check(self, first: int, count: int) -> None:
        """Read these rows, and keep none."""
        if count and self.nbytes:
            for number in range(
                first * self.row_bytes // PIECE_BYTES, -(-(first + count) * self.row_bytes // PIECE_BYTES)
            ):
                self._read(number)

    # The tree of its proofs (zoo_compute.disputes.evidence.TensorTree)

    @property
    def head(self) -> bytes:
        return tensor_head(DTYPE_CODES[self.dtype.name], self.shape)

    @property
    def height(self) -> int:
        return _height(self.nbytes)

    def leaf(self, number: int) -> bytes:
        return self._between(number * LEAF_BYTES, min(self.nbytes, (number + 1) * LEAF_BYTES)).tobytes()

    def node(self, level: int, index: int) -> bytes:
        if level >= HEIGHT and len(self.roots) > 1:
            return self._above.node(level - HEIGHT, index)
        number, within = divmod(index << level, LEAVES)
        if number >= len(self.roots):
            return _PADDINGS[level]
        if self._newest is None or self._newest[0] != number:  # a path asks for each of its levels
            leaves = tensor_leaves(self._piece(number))
            padding = [] if len(self.roots) == 1 else [PADDING] * (LEAVES - len(leaves))
            self._newest = number, Tree([*leaves, *padding])
        return self._newest[1].node(level, within >> level)

    @cached_property
    def _above(self) -> Tree:
        return Tree(self.roots, _PADDINGS[HEIGHT])

    # Its bytes

    def _between(self, start: int, end: int) -> Array:
        parts = []
        for number in range(start // PIECE_BYTES, -(-end // PIECE_BYTES)):
            at = number * PIECE_BYTES
            parts.append(self._piece(number)[max(0, start - at) : end - at])
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.uint8), *parts])

    def _piece(self, number: int) -> Array:
        if number not in self._pieces:
            self._pieces[number] = self._read(number)
            while len(self._pieces) > KEPT:
                self._pieces.popitem(last=False)
        return self._pieces[number]

    def _read(self, number: int) -> Array:
        first, end = number * PIECE_BYTES, min(self.nbytes, (number + 1) * PIECE_BYTES)
        data = np.frombuffer(self.read(self.start + first, self.start + end), np.uint8)
        if len(data) != end - first or _root_of(data, len(self.roots) == 1) != self.roots[number]:
            raise self.refused(f"{self.name!r}: bytes {first:,} to {end:,} are not those of its root")
        return data


class PiecedState(Mapping[str, PiecedTensor]):
    """The tensors of a canonical file, read piece by piece. Raises FileRefused for a file that is not one, or roots of another.

    read: the file's bytes, fewer where it ends; roots: of `piece_roots`; header_bytes: at least the header's.
    """

    def __init__(self, read: Read, roots: bytes, *, header_bytes: int, refused: Refused = FileRefused) -> None:
        layout, at = read_layout(io.BytesIO(read(0, header_bytes)))
        self._tensors, first = dict[str, PiecedTensor](), 0
        for name, (dtype, shape, nbytes) in layout.items():
            count = max(1, -(-nbytes // PIECE_BYTES))
            own = roots[first * ROOT_BYTES : (first + count) * ROOT_BYTES]
            if len(own) != count * ROOT_BYTES:
                break
            pieces = tuple(own[each : each + ROOT_BYTES] for each in range(0, len(own), ROOT_BYTES))
            self._tensors[name] = PiecedTensor(name, DTYPES[dtype], shape, at, pieces, read, refused)
            at, first = at + nbytes, first + count
        if len(self._tensors) != len(layout) or len(roots) != first * ROOT_BYTES:
            raise FileRefused(f"roots of pieces: {len(roots)} bytes are not those of this file's tensors")
        self.file_bytes = at

    @property
    def root(self) -> bytes:
        return state_root_of({name: tensor.root for name, tensor in self.items()})

    def __getitem__(self, name: str) -> PiecedTensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
