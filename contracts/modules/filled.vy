# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Tensors of one word
@license Apache-2.0
@notice The root of a tensor that holds the same word everywhere, in three hashes a level of its tree.
"""


from . import merkle
from . import openings


@internal
@pure
def _root(count: uint256, word: bytes4) -> bytes32:
    """
    @notice Of the elements, `count` of them; `word` as it is committed, the lowest byte first.
    """
    if count == 0:
        return empty(bytes32)
    row: bytes32 = convert(convert(word, uint256) * (max_value(uint256) // (2**32 - 1)), bytes32)
    half: Bytes[256] = concat(row, row, row, row, row, row, row, row)
    data: Bytes[merkle.LEAF_BYTES] = concat(half, half)
    leaves: uint256 = (count - 1) // openings.WORDS_A_LEAF + 1
    last: uint256 = count - (leaves - 1) * openings.WORDS_A_LEAF
    # The last node of each level, any before it, and any after it.
    node: bytes32 = merkle._leaf(slice(data, 0, openings.WORD_BYTES * last))
    before: bytes32 = merkle._leaf(data)
    beyond: bytes32 = empty(bytes32)
    for _: uint256 in range(merkle.MAX_DEPTH):
        if leaves == 1:
            break
        node = merkle._parent(node, beyond) if leaves % 2 == 1 else merkle._parent(before, node)
        before = merkle._parent(before, before)
        beyond = merkle._parent(beyond, beyond)
        leaves = (leaves + 1) // 2
    return node
