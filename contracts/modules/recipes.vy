# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Recipes
@license Apache-2.0
@notice Executes a recipe of the table on words, as repops/recipes.py says.
@dev Words are below 2^32, and stay so.
"""


from . import float32
from .generated import recipe_table as table


# A carried word, and one operand of 64 terms or two of 32.
MAX_WORDS: constant(uint256) = 65
WORD: constant(uint256) = 2**32 - 1
SIGN: constant(uint256) = 2**31


@internal
@pure
def _run(
    code: uint256,
    words: DynArray[uint256, MAX_WORDS],
    fixed: uint256,
    each: uint256,
    terms: uint256,
    row: uint256,
    earlier: uint256,
) -> uint256:
    """
    @param fixed How many words are inputs of every term; the first is the word that terms carry on.
    @param each How many words are inputs of one term, after those.
    @param row The last input of a scatter: the row that an index may hit.
    @param earlier How many terms of a rank come before the element.
    @return The word that is carried in the end.
    """
    if code == table.TREE:
        return self._tree(words, fixed)
    entries: bytes32[table.TABLE_WORDS] = table.TABLE
    at: uint256 = convert(entries[code >> 3], uint256) >> ((code & 7) << 5) & WORD
    head: uint256 = convert(entries[at >> 3], uint256) >> ((at & 7) << 5) & WORD
    at += 1
    registers: uint256[table.REGISTERS] = empty(uint256[table.REGISTERS])
    registers[0] = convert(entries[at >> 3], uint256) >> ((at & 7) << 5) & WORD
    at += 1
    next: uint256 = head & 255
    # Every recipe has an input. Where the last one is no word that is read, it is a scatter's row; elsewhere it is overwritten.
    registers[next - 1] = row
    for i: uint256 in range(head >> 8 & 255, bound=table.REGISTERS):
        registers[next] = convert(entries[at >> 3], uint256) >> ((at & 7) << 5) & WORD
        next += 1
        at += 1
    for i: uint256 in range(fixed, bound=3):
        registers[i] = words[i]
    source: uint256 = fixed
    if code == table.DOT:
        # Faster than by its recipe, which is this: most of what is computed is dots.
        dot: uint256 = registers[0]
        for term: uint256 in range(terms, bound=table.MAX_STEPS):
            dot = float32._fma(words[source], words[unsafe_add(source, 1)], dot)
            source = unsafe_add(source, 2)
        return dot
    end: uint256 = at + (head >> 16 & 255)
    for term: uint256 in range(terms, bound=table.MAX_STEPS):
        if each != 0:
            registers[fixed] = words[source]
            if each == 2:
                registers[unsafe_add(fixed, 1)] = words[unsafe_add(source, 1)]
            source = unsafe_add(source, each)
        if code == table.RANK:
            registers[3] = convert(term < earlier, uint256)
        to: uint256 = next
        for i: uint256 in range(at, end, bound=table.MAX_STEPS):
            step: uint256 = convert(entries[i >> 3], uint256) >> ((i & 7) << 5)
            a: uint256 = registers[step >> 8 & 255]
            b: uint256 = registers[step >> 16 & 255]
            do: uint256 = step & 255
            result: uint256 = 0
            if do == table.DO_FMA:
                result = float32._fma(a, b, registers[step >> 24 & 255])
            elif do == table.DO_WHERE:
                result = b if a != 0 else registers[step >> 24 & 255]
            elif do == table.DO_ADD:
                result = float32._add(a, b)
            elif do == table.DO_XOR:
                result = a ^ b
            elif do == table.DO_AND:
                result = a & b
            elif do == table.DO_LT:
                result = convert(float32._is_less(a, b, False), uint256)
            elif do == table.DO_EQ:
                result = convert(float32._is_equal(a, b), uint256)
            elif do == table.DO_IADD:
                result = unsafe_add(a, b) & WORD
            elif do == table.DO_SUB:
                result = float32._sub(a, b)
            elif do == table.DO_MUL:
                result = float32._mul(a, b)
            elif do == table.DO_IMUL:
                result = unsafe_mul(a, b) & WORD
            elif do == table.DO_IMULH:
                result = unsafe_mul(a, b) >> 32
            elif do == table.DO_ISUB:
                result = unsafe_sub(a, b) & WORD
            elif do == table.DO_OR:
                result = a | b
            elif do == table.DO_SHL:
                result = a << (b & 31) & WORD
            elif do == table.DO_LE:
                result = convert(float32._is_less(a, b, True), uint256)
            elif do == table.DO_SHR:
                result = a >> (b & 31)
            elif do == table.DO_IEQ:
                result = convert(a == b, uint256)
            elif do == table.DO_ILT:
                result = convert(a ^ SIGN < b ^ SIGN, uint256)
            elif do == table.DO_DIV:
                result = float32._div(a, b)
            elif do == table.DO_IDIV:
                result = self._floor_div(a, b)
            elif do == table.DO_TO_FLOAT:
                result = float32._from_int(a)
            elif do == table.DO_SQRT:
                result = float32._sqrt(a)
            else:
                result = float32._to_int(a)
            registers[to] = result
            to = unsafe_add(to, 1)
        registers[0] = registers[head >> 24]
    return registers[0]


@internal
@pure
def _tree(words: DynArray[uint256, MAX_WORDS], count: uint256) -> uint256:
    """
    @notice The sum of a power of two of words: the upper half is added to the lower one, until one is left.
    """
    row: DynArray[uint256, MAX_WORDS] = words
    half: uint256 = count >> 1
    for _: uint256 in range(table.LANES):
        if half == 0:
            break
        for i: uint256 in range(half, bound=table.LANES):
            row[i] = float32._add(row[i], row[unsafe_add(i, half)])
        half = half >> 1
    return row[0]


@internal
@pure
def _floor_div(a: uint256, b: uint256) -> uint256:
    """
    @dev floor(a / b) of signed integers of 32 bits, mod 2^32; 0 when b is 0.
    """
    x: uint256 = unsafe_sub(a, 2**32) if a >= SIGN else a
    y: uint256 = b
    if b >= SIGN:
        x = unsafe_sub(0, x)
        y = unsafe_sub(2**32, b)
    # 2^32 is added to the quotient, so that what is divided is not negative; the mask takes it away.
    return unsafe_div(unsafe_add(x, y << 32), y) & WORD
