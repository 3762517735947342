# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Operators
@license Apache-2.0
@notice Executes one part of one element of any node of a program: what the referee asks when nothing else is left to dispute.
@dev Pure: descriptor and words are what the caller has seen proven. Words are below 2^32.
"""


from .modules import descriptors
from .modules import element_parts
from .modules import recipe_table as table
from .modules import recipes


@external
@pure
def execute(
    descriptor: Bytes[descriptors.MAX_BYTES],
    element: uint256,
    part: uint256,
    words: DynArray[uint256, recipes.MAX_WORDS],
) -> (uint256, DynArray[uint256, element_parts.MAX_CARRIED], DynArray[uint256, element_parts.MAX_READS]):
    """
    @notice One part of an element, as repops/parts.py numbers and defines it; the last part's word is the element's.
    @param descriptor Of a node that a program admitted (repops/encoding.py).
    @param element Its row-major number.
    @param words The results of the parts it carries on, then the words at the addresses it reads, both in the order returned.
    @return The word; the numbers of the parts carried on; the addresses read, `operand << 64 | linear index into its source`.
    """
    node: descriptors.Node = descriptors._at(descriptor, element)
    found: element_parts.Part = element_parts._part(node, part)
    if node.code == table.TAKE:
        assert len(words) != 0, "operators: wrong number of words"
        # As a signed integer it is negative, or at least the extent.
        if words[0] < node.terms:
            found.reads.append(unsafe_add(node.bases[0], unsafe_mul(node.strides[0], words[0])))
    assert len(words) == len(found.carried) + len(found.reads), "operators: wrong number of words"
    if node.code == table.IOTA or node.code == table.SCALAR:
        return node.row, found.carried, found.reads
    if node.code == table.TAKE:
        return words[1] if len(words) == 2 else 0, found.carried, found.reads
    word: uint256 = recipes._run(
        found.code, words, found.fixed, found.each, found.terms, node.row, found.earlier
    )
    return word, found.carried, found.reads


@external
@pure
def part_count(descriptor: Bytes[descriptors.MAX_BYTES], element: uint256) -> uint256:
    """
    @notice How many parts the element has.
    """
    return element_parts._count(descriptors._at(descriptor, element))
