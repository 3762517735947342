# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Parts of an element
@license Apache-2.0
@notice How one element of a node comes about, in parts of at most 64 scalar operations: repops/parts.py, number by number.
"""


from . import descriptors
from . import recipe_table as table


# Results of parts that one part may join: a sum so far, and 64 sums of blocks.
MAX_CARRIED: constant(uint256) = 65
# Two operands of 64 terms.
MAX_READS: constant(uint256) = 128


struct Part:
    # The code whose recipe is executed, on `fixed` words, and on `each` words of every one of `terms`.
    code: uint256
    fixed: uint256
    each: uint256
    terms: uint256
    # Of a rank, how many of the terms come before the element.
    earlier: uint256
    carried: DynArray[uint256, MAX_CARRIED]
    # `operand << 64 | linear index`.
    reads: DynArray[uint256, MAX_READS]


@internal
@pure
def _count(node: descriptors.Node) -> uint256:
    return self._count_of(node, self._size(node))


@internal
@pure
def _part(node: descriptors.Node, number: uint256) -> Part:
    """
    @dev A take's second word is not among the reads: where it lies, the first one tells.
    """
    size: uint256 = self._size(node)
    assert number < self._count_of(node, size), "operators: no such part"
    part: Part = empty(Part)
    part.code = node.code
    if node.term_operands == 0 or node.code == table.TAKE:
        return self._whole(node, part)
    if number == 0:
        # The word to start from; a scatter's is an operand's.
        if node.code != table.RANK and node.term_operands & 1 == 0:
            part.code = table.COPY
            part.fixed = 1
            part.reads.append(node.bases[0])
        return part
    part.fixed = 1
    part.each = 1 if node.term_operands < 3 else 2
    if node.code == table.SUM:
        return self._lane(node, part, number, size)
    first: uint256 = (number - 1) * size
    if first >= node.terms:
        return self._block_sums(node, part, number, size)
    # A dot begins anew at each block.
    part.carried.append(0 if node.code == table.DOT and first % table.BLOCK == 0 else number - 1)
    if node.code == table.RANK:
        part.fixed = 2
        part.reads.append(node.bases[0])
        part.earlier = node.row - min(node.row, first)
    part.terms = min(size, node.terms - first)
    return self._read(node, part, first, 1)


@internal
@pure
def _whole(node: descriptors.Node, part: Part) -> Part:
    """
    @dev An element of one part: its operands' words at its place.
    """
    found: Part = part
    if node.code == table.TAKE:
        found.reads.append(1 << 64 | node.bases[1])
        return found
    for i: uint256 in range(node.operands, bound=3):
        found.reads.append(node.operand + i << 64 | node.bases[i])
    found.fixed = node.operands
    found.terms = 1
    return found


@internal
@pure
def _lane(node: descriptors.Node, part: Part, number: uint256, size: uint256) -> Part:
    """
    @dev A part of a lane, or the tree over all of them. The first `longer` lanes have a term more than the others.
    """
    found: Part = part
    longer: uint256 = node.terms % table.LANES
    short: uint256 = node.terms // table.LANES
    parts_longer: uint256 = short // size + 1
    parts_short: uint256 = (short + size - 1) // size
    in_longer: uint256 = longer * parts_longer
    in_all: uint256 = in_longer + (table.LANES - longer) * parts_short
    if number > in_all:
        for lane: uint256 in range(table.LANES):
            last: uint256 = (lane + 1) * parts_longer
            if lane >= longer:
                last = in_longer + (lane + 1 - longer) * parts_short
            # A lane without terms is +0.
            found.carried.append(last if lane < node.terms else 0)
        found.code = table.TREE
        found.each = 0
        found.fixed = table.LANES
        found.terms = 1
        return found
    lane: uint256 = (number - 1) // parts_longer
    first: uint256 = (number - 1) % parts_longer * size
    left: uint256 = short + 1
    if number > in_longer:
        lane = longer + (number - 1 - in_longer) // parts_short
        first = (number - 1 - in_longer) % parts_short * size
        left = short
    found.carried.append(0 if first == 0 else number - 1)
    found.terms = min(size, left - first)
    return self._read(node, found, lane + first * table.LANES, table.LANES)


@internal
@pure
def _block_sums(node: descriptors.Node, part: Part, number: uint256, size: uint256) -> Part:
    """
    @dev After the chains of a dot's blocks: the first block's sum, or the sum so far, and up to 64 blocks' sums after it.
    """
    found: Part = part
    chains: uint256 = (node.terms + size - 1) // size
    blocks: uint256 = (node.terms + table.BLOCK - 1) // table.BLOCK
    group: uint256 = number - 1 - chains
    found.carried.append(table.BLOCK // size if group == 0 else number - 1)
    first: uint256 = 1 + group * table.MAX_STEPS
    found.terms = min(table.MAX_STEPS, blocks - first)
    for i: uint256 in range(found.terms, bound=table.MAX_STEPS):
        found.carried.append(min((first + i + 1) * table.BLOCK // size, chains))
    found.code = table.SUM_SEQUENTIAL
    found.each = 1
    return found


@internal
@pure
def _read(node: descriptors.Node, part: Part, first: uint256, step: uint256) -> Part:
    """
    @dev Adds where every step-th term from `first` on is read. Terms run row-major through the reduced axes: along the
         innermost one the linear index grows by a stride, and at its end it is found anew.
    """
    found: Part = part
    depth: uint256 = len(node.reduced)
    inner: uint256 = node.reduced[depth - 1]
    a: uint256 = 1 - (node.term_operands & 1)
    b: uint256 = a + part.each - 1
    stride_a: uint256 = unsafe_mul(node.strides[8 * a + depth - 1], step)
    stride_b: uint256 = unsafe_mul(node.strides[8 * b + depth - 1], step)
    at_a: uint256 = 0
    at_b: uint256 = 0
    # The coordinate along the innermost axis.
    along: uint256 = inner
    for i: uint256 in range(part.terms, bound=table.MAX_STEPS):
        if along < inner:
            at_a = unsafe_add(at_a, stride_a)
            at_b = unsafe_add(at_b, stride_b)
        else:
            rest: uint256 = first + i * step
            along = rest % inner
            at_a = node.bases[a]
            at_b = node.bases[b]
            for j: uint256 in range(depth, bound=descriptors.MAX_AXES):
                axis: uint256 = depth - 1 - j
                coordinate: uint256 = rest % node.reduced[axis]
                rest //= node.reduced[axis]
                at_a = unsafe_add(at_a, unsafe_mul(node.strides[8 * a + axis], coordinate))
                at_b = unsafe_add(at_b, unsafe_mul(node.strides[8 * b + axis], coordinate))
        along += step
        found.reads.append(a << 64 | at_a)
        if a != b:
            found.reads.append(b << 64 | at_b)
    return found


@internal
@pure
def _size(node: descriptors.Node) -> uint256:
    """
    @dev How many terms one part takes: `terms_per_part` of repops/parts.py.
    """
    most: uint256 = 1 << (table.MOST_TERMS >> 3 * node.code & 7)
    depth: uint256 = len(node.reduced)
    if depth == 0:
        return 1
    inner: uint256 = node.reduced[depth - 1]
    step: uint256 = table.LANES if node.code == table.SUM else 1
    for halved: uint256 in range(7):
        is_one_run: bool = depth == 1 or inner % (most * step) == 0
        leaves: uint256 = 0
        for i: uint256 in range(3):
            if node.term_operands >> i & 1 == 1:
                stride: uint256 = node.strides[8 * i + depth - 1]
                if stride > max_value(uint256) // 2:
                    stride = unsafe_sub(0, stride)
                touched: uint256 = most
                if is_one_run:
                    touched = min(most, 1 + ((most - 1) * stride * step + table.LEAF - 1) // table.LEAF)
                leaves += touched
        if most == 1 or leaves <= table.MAX_LEAVES:
            break
        most //= 2
    return most


@internal
@pure
def _count_of(node: descriptors.Node, size: uint256) -> uint256:
    if node.term_operands == 0 or node.code == table.TAKE:
        return 1
    if node.code == table.SUM:
        # As `_lane` numbers them.
        longer: uint256 = node.terms % table.LANES
        short: uint256 = node.terms // table.LANES
        return longer * (short // size + 1) + (table.LANES - longer) * ((short + size - 1) // size) + 2
    count: uint256 = 1 + (node.terms + size - 1) // size
    if node.code == table.DOT and node.terms > table.BLOCK:
        blocks: uint256 = (node.terms - 1) // table.BLOCK + 1
        count += (blocks + table.MAX_STEPS - 2) // table.MAX_STEPS
    return count
