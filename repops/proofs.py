"""Proofs of single elements and of single tensors under the roots of `repops.commitments`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from repops.commitments import (
    DTYPE_CODES,
    LEAF_BYTES,
    MAX_RANK,
    Array,
    canonical,
    sorted_names,
    state_leaf,
    state_leaves,
    tensor_leaves,
    tensor_root_of,
)
from repops.merkle import LEAF, merkle_proof, root_from_proof, sha256, verify_proof

_NUMPY = {code: np.dtype(name).newbyteorder("<") for name, code in DTYPE_CODES.items()}


@dataclass(frozen=True)
class ElementProof:
    """Proves one element of a tensor. index: row-major; leaf: the at most 512 bytes that contain it."""

    dtype: int
    shape: tuple[int, ...]
    index: int
    leaf: bytes
    siblings: tuple[bytes, ...]


def prove_element(array: Array, index: int) -> ElementProof:
    """Of element number `index`, row-major, for `verify_element(tensor_root(array), proof)`. Raises IndexError."""
    if not 0 <= index < array.size:
        raise IndexError(f"element {index} of {array.size}")
    dtype = DTYPE_CODES[array.dtype.name]
    number, start, stop = _leaf_range(dtype, array.shape, index)
    leaf = canonical(array).tobytes()[start:stop]
    return ElementProof(dtype, array.shape, index, leaf, tuple(merkle_proof(tensor_leaves(array), number)))


def verify_element(root: bytes, proof: ElementProof) -> bytes | None:
    """The element's bytes, little-endian, if the proof is valid under a tensor root; else None."""
    if proof.dtype not in _NUMPY or len(proof.shape) > MAX_RANK:
        return None
    if any(not 0 <= extent < 1 << 64 for extent in proof.shape) or not 0 <= proof.index < math.prod(proof.shape):
        return None
    number, start, stop = _leaf_range(proof.dtype, proof.shape, proof.index)
    if len(proof.leaf) != stop - start:
        return None
    size = _NUMPY[proof.dtype].itemsize
    count = -(-math.prod(proof.shape) * size // LEAF_BYTES)
    elements = root_from_proof(sha256(LEAF + proof.leaf), number, count, proof.siblings)
    if elements is None or tensor_root_of(proof.dtype, proof.shape, elements) != root:
        return None
    at = proof.index * size - start
    return proof.leaf[at : at + size]


@dataclass(frozen=True)
class TensorProof:
    """Proves one tensor of a state of `count` tensors. index: among the names in ascending order."""

    name: str
    tensor_root: bytes
    index: int
    count: int
    siblings: tuple[bytes, ...]


def prove_tensor(roots: Mapping[str, bytes], name: str) -> TensorProof:
    """roots: of the state's tensors. For `verify_tensor(state_root_of(roots), proof)`. Raises KeyError."""
    root, index = roots[name], sorted_names(roots).index(name)
    return TensorProof(name, root, index, len(roots), tuple(merkle_proof(state_leaves(roots), index)))


def verify_tensor(root: bytes, proof: TensorProof) -> bool:
    """Whether the state with this root has the tensor under its name. The caller checks `count` against the program."""
    leaf = state_leaf(proof.name, proof.tensor_root)
    return verify_proof(root, leaf, proof.index, proof.count, proof.siblings)


def _leaf_range(dtype: int, shape: Sequence[int], index: int) -> tuple[int, int, int]:
    """Number of the leaf that holds an element, and where its bytes begin and end in the tensor's."""
    size = _NUMPY[dtype].itemsize
    number = index * size // LEAF_BYTES
    return number, number * LEAF_BYTES, min((number + 1) * LEAF_BYTES, math.prod(shape) * size)
