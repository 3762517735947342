// Enough of CUDA to run generated kernels on a CPU, one block at a time, each thread a fiber: a barrier or a shuffle
// hands over to the next fiber, so that all come to the same point before any goes on. From one barrier to the next the
// fibers run forwards or backwards, by chance: a missing barrier shows whichever thread it lets run ahead.

#include <ucontext.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static

struct alignas(16) uint4 { unsigned int x, y, z, w; };
struct Index { unsigned int x, y = 1, z = 1; };
static Index blockIdx, threadIdx, blockDim;

namespace fibers {
constexpr unsigned long STACK = 1 << 16;
constexpr unsigned MOST = 1024;
static ucontext_t main_context, contexts[MOST];
static char stacks[STACK * MOST];
static bool finished[MOST];
static unsigned exchanged[MOST];
static void (*body)(void**);
static void** arguments;
static unsigned chance = 1;

static void pass() {
    const unsigned me = threadIdx.x;
    swapcontext(&contexts[me], &main_context);
}
static void enter() {
    const unsigned me = threadIdx.x;
    body(arguments);
    finished[me] = true;
    swapcontext(&contexts[me], &main_context);
}
static void run_block(unsigned threads) {
    for (unsigned t = 0; t < threads; ++t) {
        finished[t] = false;
        getcontext(&contexts[t]);
        contexts[t].uc_stack.ss_sp = stacks + STACK * t;
        contexts[t].uc_stack.ss_size = STACK;
        contexts[t].uc_link = nullptr;
        makecontext(&contexts[t], enter, 0);
    }
    for (bool any = true; any;) {
        any = false;
        chance = chance * 1664525u + 1013904223u;
        for (unsigned n = 0; n < threads; ++n) {
            const unsigned t = chance >> 31 ? n : threads - 1 - n;
            if (finished[t]) continue;
            threadIdx.x = t;
            swapcontext(&main_context, &contexts[t]);
            any = any || !finished[t];
        }
    }
}
}  // namespace fibers

static inline void __syncthreads() { fibers::pass(); }
static inline unsigned __shfl_down_sync(unsigned, unsigned value, unsigned by) {
    const unsigned me = threadIdx.x;
    fibers::exchanged[me] = value;
    fibers::pass();
    const unsigned got = me % 32 + by < 32 ? fibers::exchanged[me + by] : value;
    fibers::pass();
    return got;
}

static inline float __uint_as_float(unsigned a) { float f; __builtin_memcpy(&f, &a, 4); return f; }
static inline unsigned __float_as_uint(float a) { unsigned w; __builtin_memcpy(&w, &a, 4); return w; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float __int2float_rn(int a) { return (float)a; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }

extern "C" void emulate(void (*kernel)(void**), unsigned blocks, unsigned threads, void** arguments) {
    fibers::body = kernel;
    fibers::arguments = arguments;
    blockDim.x = threads;
    for (unsigned block = 0; block < blocks; ++block) {
        blockIdx.x = block;
        fibers::run_block(threads);
    }
}
