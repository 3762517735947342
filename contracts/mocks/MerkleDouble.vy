# pragma version ==0.4.3
"""
@title The functions of modules/merkle, callable
@license Apache-2.0
@dev Tests only.
"""


from ..modules import merkle


@external
@pure
def climb(leaf: bytes32, index: uint256, path: DynArray[bytes32, merkle.MAX_DEPTH]) -> bytes32:
    return merkle._climb(leaf, index, path)


@external
@pure
def leaf(data: Bytes[merkle.LEAF_BYTES]) -> bytes32:
    return merkle._leaf(data)


@external
@pure
def group_root(chunk: Bytes[merkle.GROUP_BYTES], below: bool) -> bytes32:
    return merkle._group_root(chunk, below)


@external
@pure
def tensor_root(head: Bytes[merkle.MAX_HEAD], elements: bytes32) -> bytes32:
    return merkle._tensor_root(head, elements)


@external
@pure
def state_leaf(name: Bytes[merkle.MAX_NAME], tensor_root: bytes32) -> bytes32:
    return merkle._state_leaf(name, tensor_root)


@external
@pure
def segment_leaf(step: uint256, state_root: bytes32) -> bytes32:
    return merkle._segment_leaf(step, state_root)


@external
@pure
def result_root(
    slot: uint256, start_root: bytes32, segment_root: bytes32, end_root: bytes32, update_root: bytes32
) -> bytes32:
    return merkle._result_root(slot, start_root, segment_root, end_root, update_root)
