// The scalar primitives of repops/words.py, one function each, on 32-bit words. Rounding is named in every operation, so
// that no compiler option can contract, flush or approximate any of them.

typedef unsigned int u32;

#define DEVICE __device__ __forceinline__
// threads: of a block; blocks: that a processor should have registers for at once.
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)

DEVICE float as_float(u32 a) { return __uint_as_float(a); }
DEVICE u32 as_word(float a) { return __float_as_uint(a); }

DEVICE u32 w_add(u32 a, u32 b) { return as_word(__fadd_rn(as_float(a), as_float(b))); }
DEVICE u32 w_sub(u32 a, u32 b) { return as_word(__fsub_rn(as_float(a), as_float(b))); }
DEVICE u32 w_mul(u32 a, u32 b) { return as_word(__fmul_rn(as_float(a), as_float(b))); }
DEVICE u32 w_div(u32 a, u32 b) { return as_word(__fdiv_rn(as_float(a), as_float(b))); }
DEVICE u32 w_sqrt(u32 a) { return as_word(__fsqrt_rn(as_float(a))); }
DEVICE u32 w_fma(u32 a, u32 b, u32 c) { return as_word(__fmaf_rn(as_float(a), as_float(b), as_float(c))); }
DEVICE u32 w_lt(u32 a, u32 b) { return as_float(a) < as_float(b); }
DEVICE u32 w_le(u32 a, u32 b) { return as_float(a) <= as_float(b); }
DEVICE u32 w_eq(u32 a, u32 b) { return as_float(a) == as_float(b); }

DEVICE u32 w_iadd(u32 a, u32 b) { return a + b; }
DEVICE u32 w_isub(u32 a, u32 b) { return a - b; }
DEVICE u32 w_imul(u32 a, u32 b) { return a * b; }
DEVICE u32 w_imulh(u32 a, u32 b) { return __umulhi(a, b); }
DEVICE u32 w_idiv(u32 a, u32 b) {
    if (b == 0u) return 0u;
    if (b == 0xffffffffu) return 0u - a;  // -2^31 / -1 wraps; C leaves it undefined
    const int x = (int)a, y = (int)b, quotient = x / y;
    const bool exact = quotient * y == x;
    return (u32)(quotient - (!exact && (x ^ y) < 0));
}
DEVICE u32 w_and(u32 a, u32 b) { return a & b; }
DEVICE u32 w_or(u32 a, u32 b) { return a | b; }
DEVICE u32 w_xor(u32 a, u32 b) { return a ^ b; }
DEVICE u32 w_shl(u32 a, u32 b) { return a << (b & 31u); }
DEVICE u32 w_shr(u32 a, u32 b) { return a >> (b & 31u); }
DEVICE u32 w_ieq(u32 a, u32 b) { return a == b; }
DEVICE u32 w_ilt(u32 a, u32 b) { return (int)a < (int)b; }
DEVICE u32 w_where(u32 c, u32 a, u32 b) { return c ? a : b; }
DEVICE u32 w_to_float(u32 a) { return as_word(__int2float_rn((int)a)); }
DEVICE u32 w_to_int(u32 a) {
    const float x = as_float(a);
    if (!(x == x)) return 0u;
    if (x >= 2147483648.0f) return 0x7fffffffu;
    if (x <= -2147483648.0f) return 0x80000000u;
    return (u32)(int)x;
}
