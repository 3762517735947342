// A CUDA driver that runs nothing: memory is the host's, launches are checked and counted, everything taken is counted
// until it is given back. The signatures are cuda.h's.

#include <stdlib.h>
#include <string.h>

typedef int R;
typedef unsigned long long Pointer;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, BAD_CONTEXT = 201 };

long fake_memory, fake_modules, fake_graphs, fake_launches, fake_replays, fake_prefetched;
long fake_free = 1l << 30;
static int context, stream, current, capturing;

R cuInit(unsigned flags) { return flags ? INVALID : OK; }
R cuDriverGetVersion(int *version) { *version = 13000; return OK; }
R cuDeviceGet(int *device, int ordinal) { *device = 7 + ordinal; return OK; }
R cuDeviceGetName(char *name, int length, int device) { strncpy(name, "fake", length); return device == 7 ? OK : INVALID; }
R cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 0xab, 16); return device == 7 ? OK : INVALID; }
R cuDeviceGetAttribute(int *value, int which, int device) {
    *value = which == 75 ? 9 : which == 76 ? 0 : which == 89 ? 1 : -1;
    return device == 7 ? OK : INVALID;
}
R cuDevicePrimaryCtxRetain(void **out, int device) { *out = &context; return device == 7 ? OK : INVALID; }
R cuCtxSetCurrent(void *given) { current = given == &context; return current ? OK : BAD_CONTEXT; }
R cuStreamCreate(void **out, unsigned flags) { *out = &stream; return flags ? INVALID : OK; }
R cuStreamSynchronize(void *s) { return s == &stream && !capturing ? OK : INVALID; }

R cuModuleLoadData(void **module, const void *image) {
    if (!current || memcmp(image, "\x7f" "ELF", 4)) return INVALID;
    ++fake_modules;
    *module = malloc(1);
    return OK;
}
R cuModuleUnload(void *module) { free(module); --fake_modules; return OK; }
R cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = &stream;
    return module && !strncmp(name, "kernel_", 7) ? OK : INVALID;
}
R cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                 void *s, void **arguments, void **extra) {
    ++fake_launches;
    const int sizes = gx && gy == 1 && gz == 1 && bx >= 32 && bx <= 1024 && by == 1 && bz == 1 && !shared;
    return f == &stream && sizes && s == &stream && !extra && *(Pointer *)arguments[0] % 4 == 0 ? OK : INVALID;
}
R cuStreamBeginCapture_v2(void *s, int mode) { capturing = 1; return s == &stream && mode == 1 ? OK : INVALID; }
R cuStreamEndCapture(void *s, void **graph) { capturing = 0; *graph = malloc(1); return s == &stream ? OK : INVALID; }
R cuGraphInstantiateWithFlags(void **ready, void *graph, Pointer flags) {
    ++fake_graphs;
    *ready = malloc(1);
    return graph && !flags ? OK : INVALID;
}
R cuGraphDestroy(void *graph) { free(graph); return OK; }
R cuGraphExecDestroy(void *ready) { free(ready); --fake_graphs; return OK; }
R cuGraphLaunch(void *ready, void *s) { ++fake_replays; return ready && s == &stream ? OK : INVALID; }

R cuMemGetInfo_v2(size_t *free_, size_t *total) { *free_ = *total = fake_free; return OK; }
R cuMemAlloc_v2(Pointer *out, size_t bytes) {
    if (!bytes) return INVALID;
    if (bytes > (size_t)fake_free) return OUT_OF_MEMORY;
    ++fake_memory;
    *out = (Pointer)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return OK;
}
R cuMemAllocManaged(Pointer *out, size_t bytes, unsigned flags) { return flags == 1 ? cuMemAlloc_v2(out, bytes) : INVALID; }
R cuMemFree_v2(Pointer at) { free((void *)at); --fake_memory; return current ? OK : BAD_CONTEXT; }
R cuMemPrefetchAsync(Pointer at, size_t bytes, int device, void *s) {
    fake_prefetched += bytes;
    return at && device == 7 && s == &stream ? OK : INVALID;
}
R cuMemcpyHtoD_v2(Pointer to, const void *from, size_t bytes) { memcpy((void *)to, from, bytes); return OK; }
R cuMemcpyDtoH_v2(void *to, Pointer from, size_t bytes) { memcpy(to, (void *)from, bytes); return OK; }

R cuGetErrorName(R code, const char **text) {
    *text = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_VALUE";
    return OK;
}
R cuGetErrorString(R code, const char **text) { *text = code == OUT_OF_MEMORY ? "out of memory" : "invalid argument"; return OK; }
