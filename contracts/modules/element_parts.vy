# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Parts of an element
@license Apache-2.0
@notice How one element of a node comes about, in parts of at most 64 scalar operations: repops/parts.py, number by number.
@dev An element is a recipe over its operands' words, in one part; or a chain of terms, of which part 0 is the beginning. A
     dot's chain begins anew at each block, and the blocks' sums are added last; a sum has 32 chains, and a tree over them.
"""


from . import descriptors
from .generated import recipe_table as table


# Results of parts that one part may join: a sum so far, and 32 blocks' sums.
MAX_CARRIED: constant(uint256) = 33
# One operand of 32 terms, or two of 16.
MAX_READS: constant(uint256) = table.MAX_WORDS
# Parts that join lanes, before the one that joins these.
TREES: constant(uint256) = table.LANES // table.JOINED


struct Part:
    # The code whose recipe is executed, on `fixed` words, and on `each` words of every one of `terms`.
    code: uint256
    fixed: uint256
    each: uint256
    terms: uint256
    # How many operands are read at the element's place. Of `fixed`, what is not read is carried.
    direct: uint256
    # The first term that is read, or lane that is joined, and how far it is to the next term; 0: none is read.
    first: uint256
    step: uint256
    # The part whose result is carried on, where it is one.
    before: uint256


@internal
@pure
def _size(node: descriptors.Node) -> uint256:
    """
    @return How many terms one part takes: `terms_per_part` of repops/parts.py.
    """
    most: uint256 = 1 << (table.MOST_TERMS >> 3 * node.code & 7)
    if node.depth == 0:
        return most
    inner: uint256 = node.reduced[node.depth - 1]
    step: uint256 = table.LANES if node.code == table.SUM else 1
    for halved: uint256 in range(7):
        leaves: uint256 = 0
        for operand: uint256 in range(3):
            if node.term_operands >> operand & 1 == 1:
                touched: uint256 = most
                if node.depth == 1 or inner % (most * step) == 0:
                    stride: uint256 = node.strides[8 * operand + node.depth - 1]
                    if stride > max_value(uint256) // 2:
                        stride = unsafe_sub(0, stride)
                    touched = min(most, 1 + ((most - 1) * stride * step + table.LEAF - 1) // table.LEAF)
                leaves += touched
        if leaves <= table.MAX_LEAVES or most == 1:
            break
        most //= 2
    return most


@internal
@pure
def _count(node: descriptors.Node, size: uint256) -> uint256:
    """
    @return How many parts the element has.
    """
    if node.term_operands == 0 or node.code == table.TAKE:
        return 1
    if node.code == table.SUM:
        # As `_lane` numbers them.
        longer: uint256 = node.terms % table.LANES
        short: uint256 = node.terms // table.LANES
        return 2 + TREES + longer * (short // size + 1) + (table.LANES - longer) * self._groups(short, size)
    count: uint256 = 1 + self._groups(node.terms, size)
    if node.code == table.DOT and node.terms > table.BLOCK:
        count += self._groups(self._groups(node.terms, table.BLOCK) - 1, self._joined(size))
    return count


@internal
@pure
def _part(node: descriptors.Node, number: uint256, size: uint256) -> Part:
    part: Part = empty(Part)
    part.code = node.code
    if node.term_operands == 0:
        part.fixed = node.operands
        part.direct = node.operands
        part.terms = 1
        return part
    if number == 0:
        # The word to start from is the recipe's; a scatter's is an operand's. A take has this part alone.
        if node.code == table.SCATTER or node.code == table.SCATTER_ADD:
            part.code = table.COPY
            part.fixed = 1
            part.direct = 1
        return part
    if node.code == table.SUM:
        return self._lane(node.terms, number, size)
    part.before = number - 1
    part.fixed = 1
    part.first = part.before * size
    if part.first >= node.terms:
        part.code = table.SUM_SEQUENTIAL
        part.each = 1
        group: uint256 = part.before - self._groups(node.terms, size)
        if group == 0:
            part.before = table.BLOCK // size
        blocks: uint256 = self._groups(node.terms, table.BLOCK)
        joined: uint256 = self._joined(size)
        part.terms = min(joined, blocks - 1 - group * joined)
        return part
    part.each = 1 if node.term_operands < 3 else 2
    part.terms = min(size, node.terms - part.first)
    part.step = 1
    if node.code == table.RANK:
        part.fixed = 2
        part.direct = 1
    elif node.code == table.DOT and part.first % table.BLOCK == 0:
        part.before = 0
    return part


@internal
@pure
def _lane(terms: uint256, number: uint256, size: uint256) -> Part:
    """
    @dev A part of a sum's lane, or of the tree over all of them. The first `longer` lanes have a term more than the others.
    """
    part: Part = empty(Part)
    longer: uint256 = terms % table.LANES
    short: uint256 = terms // table.LANES
    parts_longer: uint256 = short // size + 1
    parts_short: uint256 = self._groups(short, size)
    in_longer: uint256 = longer * parts_longer
    chains: uint256 = in_longer + (table.LANES - longer) * parts_short
    if number > chains:
        part.code = table.TREE
        part.first = number - chains - 1
        part.fixed = table.JOINED if part.first < TREES else TREES
        return part
    place: uint256 = number - 1
    lane: uint256 = place // parts_longer
    place %= parts_longer
    left: uint256 = short + 1
    if number > in_longer:
        place = number - 1 - in_longer
        lane = longer + place // parts_short
        place %= parts_short
        left = short
    part.code = table.SUM
    part.fixed = 1
    part.each = 1
    part.before = 0 if place == 0 else number - 1
    part.terms = min(size, left - place * size)
    part.first = lane + place * size * table.LANES
    part.step = table.LANES
    return part


@internal
@pure
def _carried(node: descriptors.Node, part: Part, number: uint256, size: uint256) -> DynArray[uint256, MAX_CARRIED]:
    """
    @return The numbers of the parts whose results it joins.
    """
    numbers: DynArray[uint256, MAX_CARRIED] = []
    if part.code == table.TREE and part.first == TREES:
        for i: uint256 in range(TREES):
            numbers.append(number - TREES + i)
    elif part.code == table.TREE:
        longer: uint256 = node.terms % table.LANES
        short: uint256 = node.terms // table.LANES
        last: uint256 = 0
        for lane: uint256 in range(table.LANES):
            last += short // size + 1 if lane < longer else self._groups(short, size)
            if lane % TREES == part.first:
                # A lane without terms is part 0, +0.
                numbers.append(last if lane < node.terms else 0)
    elif part.fixed > part.direct:
        numbers.append(part.before)
        if part.step == 0:
            # A dot's blocks: each ends in the part that its last term is in.
            chains: uint256 = self._groups(node.terms, size)
            first: uint256 = (number - 1 - chains) * self._joined(size) + 2
            for i: uint256 in range(part.terms, bound=table.MAX_WORDS):
                numbers.append(min((first + i) * table.BLOCK // size, chains))
    return numbers


@internal
@pure
def _reads(node: descriptors.Node, part: Part) -> DynArray[uint256, MAX_READS]:
    """
    @return Where its words lie, `operand << 64 | linear index`.
    @dev Terms run row-major through the reduced axes: along the innermost one the linear index grows by a stride; at its
         end it is found anew.
    """
    addresses: DynArray[uint256, MAX_READS] = []
    for i: uint256 in range(part.direct, bound=3):
        addresses.append(node.operand + i << 64 | node.bases[i])
    if part.step == 0:
        return addresses
    last: uint256 = node.depth - 1
    inner: uint256 = node.reduced[last]
    # The operands, and how far each goes from one term to the next.
    a: uint256 = 1 - (node.term_operands & 1)
    b: uint256 = a + part.each - 1
    stride_a: uint256 = unsafe_mul(node.strides[8 * a + last], part.step)
    stride_b: uint256 = unsafe_mul(node.strides[8 * b + last], part.step)
    at_a: uint256 = 0
    at_b: uint256 = 0
    # The coordinate along the innermost axis.
    along: uint256 = inner
    for i: uint256 in range(part.terms, bound=table.MAX_WORDS):
        if along < inner:
            at_a = unsafe_add(at_a, stride_a)
            at_b = unsafe_add(at_b, stride_b)
        else:
            rest: uint256 = part.first + i * part.step
            along = rest % inner
            at_a = a << 64 | node.bases[a]
            at_b = b << 64 | node.bases[b]
            for j: uint256 in range(node.depth, bound=descriptors.MAX_AXES):
                axis: uint256 = last - j
                coordinate: uint256 = rest % node.reduced[axis]
                rest //= node.reduced[axis]
                at_a = unsafe_add(at_a, unsafe_mul(node.strides[8 * a + axis], coordinate))
                at_b = unsafe_add(at_b, unsafe_mul(node.strides[8 * b + axis], coordinate))
        along = unsafe_add(along, part.step)
        addresses.append(at_a)
        if a != b:
            addresses.append(at_b)
    return addresses


@internal
@pure
def _joined(size: uint256) -> uint256:
    """
    @return How many blocks' sums one part adds: `blocks_per_part` of repops/parts.py.
    """
    return min(table.MAX_WORDS, table.MAX_LEAVES * table.LEAF * size // table.BLOCK)


@internal
@pure
def _groups(count: uint256, size: uint256) -> uint256:
    return (count + size - 1) // size
