# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title What of a node's descriptor evidence needs
@license Apache-2.0
@dev docs/protocol/referee.md; a descriptor as repops/encoding.py has it, of a node that a program admitted.
"""


from . import openings
from .generated import recipe_table as table


REDUCED_AT: constant(uint256) = 12


@internal
@pure
def _word(descriptor: Bytes[openings.MAX_DESCRIPTOR], at: uint256) -> uint256:
    return convert(slice(descriptor, at, 4), uint256)


@internal
@pure
def _operand(descriptor: Bytes[openings.MAX_DESCRIPTOR], number: uint256) -> uint256:
    """
    @notice The node that is operand `number`.
    @dev Before it lie node, offset and strides of those before it, which have a stride for each axis of their domain.
    """
    rank: uint256 = self._word(descriptor, openings.RANK_AT)
    depth: uint256 = self._word(descriptor, REDUCED_AT)
    ranging: uint256 = table.TERM_OPERANDS >> 3 * self._word(descriptor, 0) & 7
    words: uint256 = rank + depth + number * (2 + rank)
    for before: uint256 in range(2):
        if before < number and ranging >> before & 1 == 1:
            words += depth
    return self._word(descriptor, openings.EXTENTS_AT + 4 * words)
