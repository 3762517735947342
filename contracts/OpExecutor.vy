# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title OpExecutor
@license Apache-2.0
@notice Executes one part of one element of any node of a program: what the referee asks when nothing else is left to dispute.
@dev Pure: descriptor and words are what the caller has seen proven. Words are below 2^32.
"""


from .modules import descriptors
from .modules import element_parts
from .modules.generated import recipe_table as table
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
    size: uint256 = element_parts._size(node)
    assert part < element_parts._count(node, size), "executor: no such part"
    found: element_parts.Part = element_parts._part(node, part, size)
    carried: DynArray[uint256, element_parts.MAX_CARRIED] = element_parts._carried(node, found, part, size)
    reads: DynArray[uint256, element_parts.MAX_READS] = element_parts._reads(node, found)
    word: uint256 = 0
    if node.code == table.TAKE:
        assert len(words) != 0, "executor: wrong number of words"
        reads.append(1 << 64 | node.bases[1])
        # A negative index is beyond any extent here.
        if words[0] < node.terms:
            reads.append(unsafe_add(node.bases[0], unsafe_mul(node.strides[0], words[0])))
            word = words[len(words) - 1]
    assert len(words) == len(carried) + len(reads), "executor: wrong number of words"
    if node.code == table.IOTA or node.code == table.SCALAR:
        word = node.row
    elif node.code != table.TAKE:
        # Of a rank's terms, those whose coordinate is below the element's come first.
        word = recipes._run(
            found.code, words, found.fixed, found.each, found.terms, node.row, node.row - min(node.row, found.first)
        )
    return word, carried, reads


@external
@pure
def part_count(descriptor: Bytes[descriptors.MAX_BYTES], element: uint256) -> uint256:
    """
    @notice How many parts the element has.
    """
    node: descriptors.Node = descriptors._at(descriptor, element)
    return element_parts._count(node, element_parts._size(node))
