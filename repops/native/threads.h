// A persistent pool of threads, and the floating-point mode every kernel runs in.
#pragma once
#include <atomic>
#include <cstdint>
#include <type_traits>

// What the library exports; everything else is hidden.
#define REPOPS_EXPORT extern "C" __attribute__((visibility("default")))

namespace repops {

constexpr int MAX_THREADS = 256;

// Round to nearest, subnormals kept (no FTZ, no DAZ), exceptions masked; the caller's mode comes back at the end of the
// scope. Somebody may have loaded a -ffast-math library: it flushes subnormals in the whole process.
class FloatMode {
 public:
  FloatMode();
  ~FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  uint64_t saved_;
};

// Runs body(context, thread, threads) on `threads` threads, thread 0 being the caller, each in FloatMode; returns when all
// are done. `threads` is clamped to 1..MAX_THREADS; body sees the clamped number. Calls from several threads take turns.
// A body must not throw and must not call parallel. Workers are started on first use and sleep when idle; after fork()
// the child starts its own.
void parallel(int threads, void (*body)(void* context, int thread, int threads), void* context);

// The same for a lambda: parallel(threads, [&](int thread, int threads) { ... });
template <class Body>
void parallel(int threads, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  parallel(
      threads, [](void* context, int thread, int count) { (*static_cast<Plain*>(context))(thread, count); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// Made before parallel(), used inside the body by all of its threads:
//   Barrier barrier(threads);  parallel(threads, [&](int t, int n) { half(t, n); barrier.wait(); other_half(t, n); });
// What a thread wrote before wait() is seen by the others after it. Every thread calls it equally often.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}
  void wait() {
    if (threads_ > 1) wait_for_others();
  }

 private:
  void wait_for_others();
  const int threads_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> round_{0};
};

}  // namespace repops
