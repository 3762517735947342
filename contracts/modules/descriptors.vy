# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Descriptors
@license Apache-2.0
@notice Reads a node's descriptor (repops/encoding.py) at one element: which words of its operands the element comes from.
@dev A descriptor is that of a node which a program admitted (repops/checking.py): its caller has seen it proven.
     Big-endian words of 32 bits: operator, dtype, rank, reduced rank, operands, attributes; extents; reduced extents; for each
     operand node, offset, a stride for each axis of its domain; attributes. Strides are two's complement, here to 256 bits,
     so that sums of products with them are right modulo 2^256.
"""


from .generated import recipe_table as table


# 6 words, 8 extents, 32 operands of 10 words, 33 attributes.
MAX_BYTES: constant(uint256) = 4 * (6 + 8 + 32 * 10 + 33)
MAX_AXES: constant(uint256) = 8
MAX_OPERANDS: constant(uint256) = 32
WORD: constant(uint256) = 2**32 - 1
SIGN: constant(uint256) = 2**31


struct Node:
    code: uint256
    # Bit i: the view of operand i ranges over the reduced axes too.
    term_operands: uint256
    # The element's coordinate along the axis that the attributes name; a scalar's word.
    row: uint256
    # Number of the first operand in `bases`: 0 but for a concat, of which one is read.
    operand: uint256
    operands: uint256
    # For each operand the linear index into its source at the element, and at the first term.
    bases: uint256[3]
    # Operand i's strides along the reduced axes, from 8 * i on.
    strides: uint256[24]
    depth: uint256
    reduced: uint256[MAX_AXES]
    terms: uint256


@internal
@pure
def _at(descriptor: Bytes[MAX_BYTES], element: uint256) -> Node:
    # The word whose last byte is byte 4 * i + 35: word i of the descriptor is the end of what is read at 4 * i + 4.
    data: Bytes[MAX_BYTES + 32] = concat(empty(bytes32), descriptor)
    node: Node = empty(Node)
    node.code = extract32(data, 4, output_type=uint256) & WORD
    assert table.COMPUTED >> node.code & 1 == 1, "executor: not a computed node"
    node.term_operands = table.TERM_OPERANDS >> 3 * node.code & 7
    rank: uint256 = extract32(data, 12, output_type=uint256) & WORD
    node.depth = extract32(data, 16, output_type=uint256) & WORD
    node.operands = extract32(data, 20, output_type=uint256) & WORD
    attributes: uint256 = extract32(data, 24, output_type=uint256) & WORD

    place: uint256[MAX_AXES] = empty(uint256[MAX_AXES])
    rest: uint256 = element
    for i: uint256 in range(rank, bound=MAX_AXES):
        axis: uint256 = rank - 1 - i
        extent: uint256 = extract32(data, 28 + 4 * axis, output_type=uint256) & WORD
        assert extent != 0, "executor: no such element"
        place[axis] = rest % extent
        rest //= extent
    assert rest == 0, "executor: no such element"
    # Where the next word is read.
    at: uint256 = 28 + 4 * rank
    node.terms = 1
    for i: uint256 in range(node.depth, bound=MAX_AXES):
        extent: uint256 = extract32(data, at, output_type=uint256) & WORD
        node.reduced[i] = extent
        node.terms *= extent
        at += 4

    if attributes != 0:
        first: uint256 = len(descriptor) + 4 - 4 * attributes
        node.row = extract32(data, first, output_type=uint256) & WORD
        if node.code != table.SCALAR:
            axis: uint256 = node.row
            node.row = place[axis]
            if node.code == table.CONCAT:
                for i: uint256 in range(node.operands, bound=MAX_OPERANDS):
                    extent: uint256 = extract32(data, first + 4 + 4 * i, output_type=uint256) & WORD
                    if place[axis] < extent:
                        node.operand = i
                        break
                    place[axis] -= extent
                node.operands = 1
                at += node.operand * 4 * (2 + rank)

    for i: uint256 in range(node.operands, bound=3):
        base: uint256 = extract32(data, at + 4, output_type=uint256) & WORD
        at += 8
        for axis: uint256 in range(rank, bound=MAX_AXES):
            stride: uint256 = extract32(data, at, output_type=uint256) & WORD
            if stride >= SIGN:
                stride = unsafe_sub(stride, 2**32)
            base = unsafe_add(base, unsafe_mul(stride, place[axis]))
            at += 4
        node.bases[i] = base
        if node.term_operands >> i & 1 == 1:
            for axis: uint256 in range(node.depth, bound=MAX_AXES):
                stride: uint256 = extract32(data, at, output_type=uint256) & WORD
                node.strides[8 * i + axis] = unsafe_sub(stride, 2**32) if stride >= SIGN else stride
                at += 4
    return node
