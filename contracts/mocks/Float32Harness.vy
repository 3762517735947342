# pragma version ==0.4.3
"""
@title Float32Harness
@license Apache-2.0
@notice Opens modules/float32 to tests, one operation at a time or in batches.
"""


from ..modules import float32


@external
@pure
def add(a: uint256, b: uint256) -> uint256:
    return float32._add(a, b)


@external
@pure
def sub(a: uint256, b: uint256) -> uint256:
    return float32._sub(a, b)


@external
@pure
def mul(a: uint256, b: uint256) -> uint256:
    return float32._mul(a, b)


@external
@pure
def div(a: uint256, b: uint256) -> uint256:
    return float32._div(a, b)


@external
@pure
def sqrt(a: uint256) -> uint256:
    return float32._sqrt(a)


@external
@pure
def fma(a: uint256, b: uint256, c: uint256) -> uint256:
    return float32._fma(a, b, c)


@external
@pure
def lt(a: uint256, b: uint256) -> uint256:
    return convert(float32._is_less(a, b, False), uint256)


@external
@pure
def le(a: uint256, b: uint256) -> uint256:
    return convert(float32._is_less(a, b, True), uint256)


@external
@pure
def eq(a: uint256, b: uint256) -> uint256:
    return convert(float32._is_equal(a, b), uint256)


@external
@pure
def to_float(a: uint256) -> uint256:
    return float32._from_int(a)


@external
@pure
def to_int(a: uint256) -> uint256:
    return float32._to_int(a)


@external
@pure
def batch(
    op: uint256, a: DynArray[uint256, 512], b: DynArray[uint256, 512], c: DynArray[uint256, 512]
) -> DynArray[uint256, 512]:
    """
    @param op 0..5: add, sub, mul, div, sqrt, fma. What an operation does not take may be left empty.
    """
    assert op <= 5, "harness: no such operation"
    found: DynArray[uint256, 512] = []
    for i: uint256 in range(len(a), bound=512):
        if op == 0:
            found.append(float32._add(a[i], b[i]))
        elif op == 1:
            found.append(float32._sub(a[i], b[i]))
        elif op == 2:
            found.append(float32._mul(a[i], b[i]))
        elif op == 3:
            found.append(float32._div(a[i], b[i]))
        elif op == 4:
            found.append(float32._sqrt(a[i]))
        else:
            found.append(float32._fma(a[i], b[i], c[i]))
    return found


@external
@view
def gas_of(op: uint256, a: uint256, b: uint256, c: uint256) -> uint256:
    """
    @return What one operation costs, with what asking for it costs.
    """
    before: uint256 = msg.gas
    found: uint256 = 0
    if op == 0:
        found = float32._add(a, b)
    elif op == 1:
        found = float32._sub(a, b)
    elif op == 2:
        found = float32._mul(a, b)
    elif op == 3:
        found = float32._div(a, b)
    elif op == 4:
        found = float32._sqrt(a)
    else:
        found = float32._fma(a, b, c)
    return before - msg.gas
