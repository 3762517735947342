// Every unary operator of the table on all 2^32 words, against an oracle that shares nothing with its recipe.
//
//   oracle NAME [THREADS [STRIDE]]     prints: name, words tried, largest error in ulp, the word it was found at, wrong words
//
// Inexact operators are compared with libm in float64. An ulp is the spacing of float32 where the exact result lies
// (2^-149 below the normal range), a float64 libm errs by less than 1e-8 of it, so the figure is right to seven digits.
// "wrong" counts what no rounding explains: NaN, infinity, the sign of a zero, the words of an exact operator.
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h" // generated from the recipes: kernel_NAME(x, y, n)

enum { CHUNK = 4096 };
static const uint32_t NAN_WORD = 0x7fc00000u;

static float as_float(uint32_t word) { float x; memcpy(&x, &word, 4); return x; }
static uint32_t as_word(float x) { uint32_t word; memcpy(&word, &x, 4); return word; }

// --- oracles: the exact value in float64, or the expected word

typedef double (*Value)(double);
typedef uint32_t (*Word)(uint32_t);

// Beyond these a recipe promises something other than the function: see the table.
static double exp_or_zero(double x) { return x < -87.0 ? 0.0 : exp(x); }
static double sin_in_range(double x) { return fabs(x) <= 1048576.0 ? sin(x) : NAN; }
static double cos_in_range(double x) { return fabs(x) <= 1048576.0 ? cos(x) : NAN; }

static uint32_t same(uint32_t x) { return x; }
static uint32_t flipped(uint32_t x) { return x ^ 0x80000000u; }
static uint32_t cleared(uint32_t x) { return x & 0x7fffffffu; }
static uint32_t nan_made_one(uint32_t x) { return isnan(as_float(x)) ? NAN_WORD : x; }
static uint32_t root(uint32_t x) { return as_word((float)sqrt((double)as_float(x))); }
static uint32_t below(uint32_t x) { return as_word((float)floor((double)as_float(x))); }
static uint32_t nearest(uint32_t x) { return as_word((float)nearbyint((double)as_float(x))); }
static uint32_t from_integer(uint32_t x) { return as_word((float)(double)(int32_t)x); }
static uint32_t to_integer(uint32_t x)
{
    const double value = trunc((double)as_float(x));
    return isnan(value) ? 0 : (uint32_t)(int32_t)fmin(fmax(value, -2147483648.0), 2147483647.0);
}

static const struct operator_ {
    const char *name;
    void (*kernel)(const uint32_t *, uint32_t *, int);
    Value value;      // inexact: the exact result
    Word word;        // exact: the word
    int gives_float;  // whether any NaN is as good as another
} OPERATORS[] = {
    {"exp", kernel_exp, exp_or_zero, NULL, 1},    {"log", kernel_log, log, NULL, 1},
    {"tanh", kernel_tanh, tanh, NULL, 1},         {"erf", kernel_erf, erf, NULL, 1},
    {"sin", kernel_sin, sin_in_range, NULL, 1},   {"cos", kernel_cos, cos_in_range, NULL, 1},
    {"sqrt", kernel_sqrt, NULL, root, 1},         {"floor", kernel_floor, NULL, below, 1},
    {"round", kernel_round, NULL, nearest, 1},    {"neg", kernel_neg, NULL, flipped, 0},
    {"abs", kernel_abs, NULL, cleared, 0},        {"copy", kernel_copy, NULL, same, 0},
    {"from_bits", kernel_from_bits, NULL, same, 0}, {"bits", kernel_bits, NULL, nan_made_one, 0},
    {"to_float", kernel_to_float, NULL, from_integer, 1}, {"to_int", kernel_to_int, NULL, to_integer, 0},
};

// --- comparing

typedef struct {
    const struct operator_ *op;
    uint64_t first, last, stride; // words first, first + stride, ... before last
    uint64_t tried, wrong;
    double error; // largest, in ulp
    uint32_t at;
} Share;

// Error in ulp of the float y against the exact value; -1 when no rounding explains it.
static double error_in_ulp(float y, double exact)
{
    if (isnan(exact) || isnan(y)) return isnan(exact) && isnan(y) ? 0.0 : -1.0;
    if (isinf(exact)) return (double)y == exact ? 0.0 : -1.0;
    if (exact == 0.0) return y == 0.0f && !signbit(y) == !signbit(exact) ? 0.0 : -1.0;
    int exponent;
    frexp(exact, &exponent);
    if (exponent < -125) exponent = -125;
    if (isinf(y) && fabs(exact) >= 0x1.ffffffp127) return (y > 0) == (exact > 0) ? 0.0 : -1.0; // rounds to infinity
    const double given = isinf(y) ? copysign(0x1p128, y) : (double)y;
    return fabs(given - exact) * ldexp(1.0, 24 - exponent);
}

static void compare(Share *share, uint32_t x, uint32_t y)
{
    const struct operator_ *op = share->op;
    if (op->value) {
        const double error = error_in_ulp(as_float(y), op->value((double)as_float(x)));
        if (error < 0) share->wrong++, share->at = x;
        if (error > share->error && !share->wrong) share->error = error, share->at = x;
        return;
    }
    const uint32_t expected = op->word(x);
    const int both_nan = op->gives_float && isnan(as_float(expected)) && isnan(as_float(y));
    if (y != expected && !both_nan) share->wrong++, share->at = x;
}

static void *work(void *given)
{
    Share *share = given;
    uint32_t x[CHUNK], y[CHUNK];
    for (uint64_t word = share->first; word < share->last;) {
        int n = 0;
        for (; n < CHUNK && word < share->last; word += share->stride) x[n++] = (uint32_t)word;
        share->op->kernel(x, y, n);
        for (int i = 0; i < n; i++) compare(share, x[i], y[i]);
        share->tried += n;
    }
    return NULL;
}

int main(int count, char **arguments)
{
    const int threads = count > 2 ? atoi(arguments[2]) : 1;
    const uint64_t stride = count > 3 ? strtoull(arguments[3], NULL, 0) : 1;
    const struct operator_ *op = NULL;
    for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++)
        if (count > 1 && !strcmp(OPERATORS[i].name, arguments[1])) op = &OPERATORS[i];
    if (!op || threads < 1 || threads > 256 || !stride) {
        fprintf(stderr, "usage: oracle NAME [THREADS [STRIDE]]; unknown operator or odd number\n");
        return 2;
    }
    Share shares[256] = {0}, total = {0};
    pthread_t ids[256];
    const uint64_t each = (1ull << 32) / threads;
    for (int i = 0; i < threads; i++) {
        shares[i] = (Share){.op = op, .first = i * each, .last = i + 1 < threads ? (i + 1) * each : 1ull << 32, .stride = stride};
        pthread_create(&ids[i], NULL, work, &shares[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        const Share *share = &shares[i];
        if ((share->wrong && !total.wrong) || (!total.wrong && share->error >= total.error)) total.at = share->at;
        if (share->error > total.error) total.error = share->error;
        total.tried += share->tried, total.wrong += share->wrong;
    }
    printf("%s %llu %.6f 0x%08x %llu\n", op->name, (unsigned long long)total.tried, total.error, total.at,
           (unsigned long long)total.wrong);
    return 0;
}
