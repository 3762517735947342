// Runs a plan: one call per step.
#include "vm.h"

#include <algorithm>

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

}  // namespace
}  // namespace repops

REPOPS_EXPORT void repops_run(const repops::Item* items, int64_t count, int threads) {
  threads = std::clamp(threads, 1, repops::MAX_THREADS);
  repops::Barrier barrier(threads);
  repops::parallel(threads, [&](int thread, int) {
    for (int64_t n = 0; n < count; n++) {
      const repops::Item& item = items[n];
      if (item.barrier) barrier.wait();
      if (item.owner < 0) repops::run_item(item, thread, threads, barrier);
      else if (item.owner % threads == thread) repops::run_item(item, 0, 1, barrier);
    }
  });
}

// For the planner to check that both sides agree: bytes of an Operand, Instruction, Item, Gemm, Scatter, Rank.
REPOPS_EXPORT int64_t repops_size(int which) {
  const int64_t sizes[] = {sizeof(repops::Operand), sizeof(repops::Instruction), sizeof(repops::Item),
                           sizeof(repops::Gemm), sizeof(repops::Scatter), sizeof(repops::Rank)};
  return which >= 0 && which < 6 ? sizes[which] : 0;
}
