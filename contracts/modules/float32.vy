# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title float32
@license Apache-2.0
@notice IEEE 754 binary32 in integers: round to nearest, ties to even; subnormals kept; every NaN made is 0x7fc00000.
@dev A float is its bit pattern, below 2^32. Nothing here checks that it is: who calls does.
     A finite float of magnitude x is `significand * 2^(exponent - 150)`, with `exponent = max(x >> 23, 1)` and
     `significand = x - (exponent - 1 << 23)`: a subnormal (field 0) has exponent 1 and no hidden bit. The other way,
     `(exponent - 1 << 23) + significand` is the magnitude, also where rounding carried the significand to 2^24.
     Each result is found exactly, as an integer of some unit, and rounded once. Bits too far below to distinguish are
     replaced by one bit that is set (sticky): it decides no tie, and keeps the side.
"""


MAGNITUDE: constant(uint256) = 2**31 - 1
SIGN: constant(uint256) = 2**31
INFINITY: constant(uint256) = 255 << 23
NAN: constant(uint256) = 511 << 22
ONE: constant(uint256) = 1
# floor(log2(v)) of v in 0..15, two bits each.
LOGARITHMS: constant(uint256) = 4294945360


@internal
@pure
def _msb(m: uint256) -> uint256:
    """
    @return floor(log2(m)) of 0 < m < 2^192.
    """
    r: uint256 = convert(m > 2**128 - 1, uint256) << 7
    r |= convert(m >> r > 2**64 - 1, uint256) << 6
    r |= convert(m >> r > 2**32 - 1, uint256) << 5
    r |= convert(m >> r > 2**16 - 1, uint256) << 4
    r |= convert(m >> r > 2**8 - 1, uint256) << 3
    r |= convert(m >> r > 2**4 - 1, uint256) << 2
    # What is left is 1..15: two bits an entry.
    return r | LOGARITHMS >> (m >> r << 1) & 3


@internal
@pure
def _round(sign: uint256, m: uint256, unit: uint256) -> uint256:
    """
    @dev The float nearest to `m * 2^(unit - 600)`, with the sign (0 or 2^31) set. m has a bit at 24 or above.
    """
    # So many bits are cut off, at least one; more where the result is subnormal: its exponent is at least 1.
    cut: uint256 = unsafe_sub(self._msb(m), 23)
    exponent: uint256 = unsafe_add(unit, cut)
    if exponent < 451:
        cut = unsafe_add(cut, unsafe_sub(451, exponent))
        exponent = 451
        if cut > 200:
            return sign
    # Half of what is cut off, less one, plus the last bit kept: what carries is above half, or half and odd.
    return sign | min(
        unsafe_add(
            unsafe_sub(exponent, 451) << 23,
            unsafe_add(m, unsafe_add(unsafe_sub(ONE << unsafe_sub(cut, 1), 1), m >> cut & 1)) >> cut,
        ),
        INFINITY,
    )


@internal
@pure
def _add(a: uint256, b: uint256) -> uint256:
    # x is the larger magnitude, y the smaller; the result has the sign of x.
    x: uint256 = a & MAGNITUDE
    y: uint256 = b & MAGNITUDE
    sign: uint256 = a & SIGN
    if x < y:
        x = y
        y = a & MAGNITUDE
        sign = b & SIGN
    if x >= INFINITY:
        if x > INFINITY or (y == INFINITY and a != b):
            return NAN
        return sign | INFINITY
    if y == 0:
        # Two zeros are -0 only when both are.
        return sign | x if x != 0 else a & b
    e: uint256 = max(y >> 23, 1)
    d: uint256 = max(x >> 23, 1)
    x = unsafe_sub(x, unsafe_sub(d, 1) << 23)
    y = unsafe_sub(y, unsafe_sub(e, 1) << 23)
    d = unsafe_sub(d, e)
    if d > 64:
        e = unsafe_add(e, unsafe_sub(d, 64))
        d = 64
        y = 1
    # In halves of y's unit, so that at least one bit is cut off below.
    d = unsafe_add(d, 1)
    if (a ^ b) & SIGN == 0:
        x = unsafe_add(x << d, y << 1)
    else:
        x = unsafe_sub(x << d, y << 1)
        if x == 0:
            return 0
    if x >> unsafe_add(d, 24) != 0:
        d = unsafe_add(d, 1)
    elif x >> unsafe_add(d, 23) == 0:
        if d < 3:
            # Much was cancelled, or both were subnormal; either way the difference is exact, and shifts to the left.
            x >>= 1
            d = min(unsafe_sub(23, self._msb(x)), unsafe_sub(e, 1))
            return sign | unsafe_add(unsafe_sub(unsafe_sub(e, d), 1) << 23, x << d)
        d = unsafe_sub(d, 1)
    return sign | min(
        unsafe_add(
            unsafe_sub(unsafe_add(e, d), 2) << 23,
            unsafe_add(x, unsafe_add(unsafe_sub(ONE << unsafe_sub(d, 1), 1), x >> d & 1)) >> d,
        ),
        INFINITY,
    )


@internal
@pure
def _sub(a: uint256, b: uint256) -> uint256:
    return self._add(a, b ^ SIGN)


@internal
@pure
def _mul(a: uint256, b: uint256) -> uint256:
    sign: uint256 = (a ^ b) & SIGN
    x: uint256 = a & MAGNITUDE
    y: uint256 = b & MAGNITUDE
    if x >= INFINITY or y >= INFINITY:
        if x > INFINITY or y > INFINITY or x == 0 or y == 0:
            return NAN
        return sign | INFINITY
    e: uint256 = max(x >> 23, 1)
    f: uint256 = max(y >> 23, 1)
    # Below 2^48.
    x = unsafe_mul(unsafe_sub(x, unsafe_sub(e, 1) << 23), unsafe_sub(y, unsafe_sub(f, 1) << 23))
    e = unsafe_add(e, f)
    if x < 1 << 46 or e < 128:
        if x == 0:
            return sign
        # A factor or the result is subnormal.
        return self._round(sign, x << 24, unsafe_add(e, 600 - 324))
    f = 23 if x < 1 << 47 else 24
    return sign | min(
        unsafe_add(
            unsafe_sub(unsafe_add(e, f), 151) << 23,
            unsafe_add(x, unsafe_add(unsafe_sub(ONE << unsafe_sub(f, 1), 1), x >> f & 1)) >> f,
        ),
        INFINITY,
    )


@internal
@pure
def _fma(a: uint256, b: uint256, c: uint256) -> uint256:
    """
    @dev a * b + c, rounded once.
    """
    x: uint256 = a & MAGNITUDE
    y: uint256 = b & MAGNITUDE
    z: uint256 = c & MAGNITUDE
    sign: uint256 = (a ^ b) & SIGN
    if x >= INFINITY or y >= INFINITY or z >= INFINITY:
        if x > INFINITY or y > INFINITY or z > INFINITY:
            return NAN
        if x < INFINITY and y < INFINITY:
            return c
        if x == 0 or y == 0 or (z == INFINITY and sign != c & SIGN):
            return NAN
        return sign | INFINITY
    e: uint256 = max(x >> 23, 1)
    f: uint256 = max(y >> 23, 1)
    x = unsafe_mul(unsafe_sub(x, unsafe_sub(e, 1) << 23), unsafe_sub(y, unsafe_sub(f, 1) << 23))
    if x == 0:
        return c if z != 0 else sign & c
    e = unsafe_add(e, f)
    f = max(z >> 23, 1)
    z = unsafe_sub(z, unsafe_sub(f, 1) << 23)
    # The product x counts units of 2^(e - 300), the addend z of 2^(f - 300).
    f = unsafe_add(f, 150)
    if e >= f:
        y = min(unsafe_sub(e, f), 100)
        if y == 100 and z != 0:
            z = 1
        x <<= y
        e = unsafe_sub(e, y)
    else:
        y = min(unsafe_sub(f, e), 100)
        if y == 100:
            x = 1
        z <<= y
        e = unsafe_sub(f, y)
    if sign == c & SIGN:
        x = unsafe_add(x, z)
    elif x >= z:
        x = unsafe_sub(x, z)
        if x == 0:
            return 0
    else:
        x = unsafe_sub(z, x)
        sign = c & SIGN
    return self._round(sign, x << 24, unsafe_add(e, 600 - 324))


@internal
@pure
def _div(a: uint256, b: uint256) -> uint256:
    sign: uint256 = (a ^ b) & SIGN
    x: uint256 = a & MAGNITUDE
    y: uint256 = b & MAGNITUDE
    if x >= INFINITY or y >= INFINITY:
        if x > INFINITY or y > INFINITY or x == y:
            return NAN
        return sign | INFINITY if x == INFINITY else sign
    if y == 0:
        return NAN if x == 0 else sign | INFINITY
    if x == 0:
        return sign
    e: uint256 = max(x >> 23, 1)
    f: uint256 = max(y >> 23, 1)
    x = unsafe_sub(x, unsafe_sub(e, 1) << 23) << 64
    y = unsafe_sub(y, unsafe_sub(f, 1) << 23)
    # At least 2^40; the remainder is sticky.
    quotient: uint256 = unsafe_div(x, y)
    return self._round(
        sign,
        quotient << 1 | convert(unsafe_mul(quotient, y) != x, uint256),
        unsafe_sub(unsafe_add(e, 600 - 65), f),
    )


@internal
@pure
def _sqrt(a: uint256) -> uint256:
    x: uint256 = a & MAGNITUDE
    if x == 0:
        return a
    if x > INFINITY or a >= SIGN:
        return NAN
    if x == INFINITY:
        return a
    e: uint256 = max(x >> 23, 1)
    # Of an even power of two: e - 150 and e have the same parity.
    x = unsafe_sub(x, unsafe_sub(e, 1) << 23) << unsafe_add(64, e & 1)
    root: uint256 = isqrt(x)
    return self._round(
        0,
        root << 1 | convert(unsafe_mul(root, root) != x, uint256),
        unsafe_add(e >> 1, 600 - 75 - 33),
    )


@internal
@pure
def _is_less(a: uint256, b: uint256, or_equal: bool) -> bool:
    """
    @dev a < b, or a <= b; zeros are equal, and NaN compares with nothing.
    """
    x: uint256 = a & MAGNITUDE
    y: uint256 = b & MAGNITUDE
    if x > INFINITY or y > INFINITY:
        return False
    if x | y == 0 or a == b:
        return or_equal
    if a & SIGN != b & SIGN:
        return a >= SIGN
    return (x < y) == (a < SIGN)


@internal
@pure
def _is_equal(a: uint256, b: uint256) -> bool:
    x: uint256 = a & MAGNITUDE
    return x <= INFINITY and (a == b or x | b & MAGNITUDE == 0)


@internal
@pure
def _from_int(a: uint256) -> uint256:
    """
    @dev The float nearest to a signed integer of 32 bits.
    """
    if a == 0:
        return 0
    size: uint256 = a
    if a >= SIGN:
        size = unsafe_sub(2**32, a)
    return self._round(a & SIGN, size << 24, 600 - 24)


@internal
@pure
def _to_int(a: uint256) -> uint256:
    """
    @dev Towards zero, as a signed integer of 32 bits: the nearest end of the range where it does not fit, 0 for NaN.
    """
    x: uint256 = a & MAGNITUDE
    if x > INFINITY:
        return 0
    if x >= 158 << 23:
        return MAGNITUDE if a < SIGN else SIGN
    if x < 127 << 23:
        return 0
    size: uint256 = (x & 2**23 - 1 | 2**23) << 8 >> unsafe_sub(158, x >> 23)
    return size if a < SIGN else unsafe_sub(2**32, size)
