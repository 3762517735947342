# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Commitment bytes: SHA-256 Merkle trees
@license Apache-2.0
@notice Computes the roots that openings lead to, as docs/protocol/commitment-bytes.md defines them.
@dev Every hash starts with a tag of its kind and padding equals no hash: what is opened as one kind at one depth of a canonical
     tree can be nothing else. A path therefore also proves the tree's depth, and nobody has to say how many leaves there are.
"""


LEAF_BYTES: constant(uint256) = 512
# An aligned subtree of height 3: what one demand asks for.
GROUP_LEAVES: constant(uint256) = 8
GROUP_HEIGHT: constant(uint256) = 3
GROUP_BYTES: constant(uint256) = 4096
MAX_DEPTH: constant(uint256) = 32
MAX_HEIGHT: constant(uint256) = 48
MAX_NAME: constant(uint256) = 512
# dtype, rank and eight dimensions, the most axes a program's tensor has.
MAX_HEAD: constant(uint256) = 66


@internal
@pure
def _little_endian(number: uint256) -> bytes4:
    """
    @notice `number` as four bytes, the lowest first. Reverts from 2^32 on.
    """
    narrow: uint256 = convert(convert(number, uint32), uint256)
    swapped: uint256 = (
        (narrow & 255) << 24 | (narrow >> 8 & 255) << 16 | (narrow >> 16 & 255) << 8 | narrow >> 24
    )
    return convert(convert(swapped, uint32), bytes4)


@internal
@pure
def _parent(left: bytes32, right: bytes32) -> bytes32:
    return sha256(concat(0x01, left, right))


@internal
@pure
def _climb(leaf: bytes32, index: uint256, path: DynArray[bytes32, MAX_DEPTH]) -> bytes32:
    """
    @notice The root under which `leaf` is number `index mod 2^len(path)`.
    @param path Siblings from the leaf upwards.
    """
    node: bytes32 = leaf
    at: uint256 = index
    for sibling: bytes32 in path:
        if at & 1 == 1:
            node = self._parent(sibling, node)
        else:
            node = self._parent(node, sibling)
        at = at >> 1
    return node


@internal
@pure
def _height_over(leaves: uint256) -> uint256:
    """
    @notice Of the tree over so many leaves, padded to a power of two.
    """
    for height: uint256 in range(MAX_HEIGHT):
        if leaves <= 1 << height:
            return height
    return MAX_HEIGHT


@internal
@pure
def _leaf(data: Bytes[GROUP_BYTES]) -> bytes32:
    """
    @notice The hash of a leaf of a tensor.
    @param data At most 512 bytes; only a tensor's last leaf has fewer. The type is that of a slice of a group.
    """
    return sha256(concat(0x00, data))


@internal
@pure
def _group_root(chunk: Bytes[GROUP_BYTES], below: bool) -> bytes32:
    """
    @notice The root of up to eight leaves.
    @param below Whether the group lies below a larger tree: then it is padded to eight leaves, else to a power of two.
    """
    size: uint256 = len(chunk)
    count: uint256 = (size + LEAF_BYTES - 1) // LEAF_BYTES
    if count == 0 and not below:
        return empty(bytes32)
    nodes: bytes32[GROUP_LEAVES] = empty(bytes32[GROUP_LEAVES])
    for i: uint256 in range(count, bound=GROUP_LEAVES):
        start: uint256 = i * LEAF_BYTES
        nodes[i] = self._leaf(slice(chunk, start, min(LEAF_BYTES, size - start)))
    width: uint256 = GROUP_LEAVES
    if not below:
        width = 1
        for _: uint256 in range(GROUP_HEIGHT):
            if width < count:
                width *= 2
    for _: uint256 in range(GROUP_HEIGHT):
        width = width >> 1
        for i: uint256 in range(width, bound=GROUP_LEAVES):
            nodes[i] = self._parent(nodes[2 * i], nodes[2 * i + 1])
    return nodes[0]


@internal
@pure
def _tensor_root(head: Bytes[MAX_HEAD], elements: bytes32) -> bytes32:
    """
    @param head dtype code, rank, and each dimension as eight little-endian bytes.
    """
    return sha256(concat(0x02, head, elements))


@internal
@pure
def _state_leaf(name: Bytes[MAX_NAME], tensor_root: bytes32) -> bytes32:
    return sha256(concat(0x03, self._little_endian(len(name)), name, tensor_root))


@internal
@pure
def _segment_leaf(step: uint256, state_root: bytes32) -> bytes32:
    return sha256(concat(0x04, self._little_endian(step), state_root))


@internal
@pure
def _result_root(
    slot: uint256, start_root: bytes32, segment_root: bytes32, end_root: bytes32, update_root: bytes32
) -> bytes32:
    return sha256(
        concat(0x04, b"result", self._little_endian(slot), start_root, segment_root, end_root, update_root)
    )
