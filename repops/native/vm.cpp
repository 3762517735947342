// Runs a plan: one call per step.
#include "vm.h"

#include <algorithm>
#include <ctime>

namespace repops {
namespace {

void run_item(const Item& item, int thread, int threads, Barrier& barrier) {
  switch (item.kind) {
    case PRODUCT: return gemm(*static_cast<const Gemm*>(item.detail), thread, threads, barrier);
    case SCATTER: return run_scatter(*static_cast<const Scatter*>(item.detail), thread, threads);
    case RANK: return run_rank(*static_cast<const Rank*>(item.detail), thread, threads);
    default: return run_tiles(item, thread, threads);
  }
}

double seconds_of_this_thread() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

}  // namespace
}  // namespace repops

// seconds: null, or one entry per item, to which the processor time of thread 0 is added. Returns 0.
REPOPS_EXPORT int repops_run(const repops::Item* items, int64_t count, int threads, double* seconds) {
  threads = std::clamp(threads, 1, repops::MAX_THREADS);
  repops::Barrier barrier(threads);
  repops::parallel(threads, [&](int thread, int) {
    double before = seconds ? repops::seconds_of_this_thread() : 0;
    for (int64_t n = 0; n < count; n++) {
      const repops::Item& item = items[n];
      if (item.barrier) barrier.wait();
      if (item.owner < 0) repops::run_item(item, thread, threads, barrier);
      else if (item.owner % threads == thread) repops::run_item(item, 0, 1, barrier);
      if (seconds && thread == 0) {
        const double now = repops::seconds_of_this_thread();
        seconds[n] += now - before;
        before = now;
      }
    }
  });
  return 0;
}

// For the planner to check that both sides agree: bytes of an Operand, Instruction, Item, Gemm, Scatter, Rank.
REPOPS_EXPORT int64_t repops_size(int which) {
  const int64_t sizes[] = {sizeof(repops::Operand), sizeof(repops::Instruction), sizeof(repops::Item),
                           sizeof(repops::Gemm), sizeof(repops::Scatter), sizeof(repops::Rank)};
  return which >= 0 && which < 6 ? sizes[which] : 0;
}
