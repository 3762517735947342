#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

namespace repops {
namespace {

constexpr int IDLE_PAUSES = 40;      // about 2 us where a pause is 140 cycles: an idle worker must not slow torch
constexpr int BARRIER_PAUSES = 500;  // then the core is given away: another thread of the region may need it

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <class Done>
void spin_then_yield(const Done& done) {
  for (int i = 0; i < BARRIER_PAUSES; i++) {
    if (done()) return;
    pause();
  }
  while (!done()) sched_yield();
}

struct Job {
  void (*body)(void*, int, int);
  void* context;
  int threads;
};

class Worker {
 public:
  void give(const Job& job) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_ = job;
      given_.fetch_add(1, std::memory_order_release);
      if (!sleeping_) return;
    }
    wake_.notify_one();
  }

  [[noreturn]] void loop(int thread, std::atomic<int>& pending) {
    for (uint32_t seen = 0;;) {
      for (int i = 0; i < IDLE_PAUSES && given_.load(std::memory_order_acquire) == seen; i++) pause();
      Job job;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        sleeping_ = true;
        wake_.wait(lock, [&] { return given_.load(std::memory_order_relaxed) != seen; });
        sleeping_ = false;
        job = job_;
      }
      seen++;
      {
        FloatMode mode;
        job.body(job.context, thread, job.threads);
      }
      pending.fetch_sub(1, std::memory_order_release);
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint32_t> given_{0};
  bool sleeping_ = false;
  Job job_{};
};

class Pool {
 public:
  void run(const Job& job) {
    std::lock_guard<std::mutex> turn(turn_);
    start_workers(job.threads - 1);
    pending_.store(job.threads - 1, std::memory_order_relaxed);
    for (int t = 1; t < job.threads; t++) workers_[t]->give(job);
    {
      FloatMode mode;
      job.body(job.context, 0, job.threads);
    }
    spin_then_yield([&] { return pending_.load(std::memory_order_acquire) == 0; });
  }

 private:
  void start_workers(int count) {
    if (started_ >= count) return;
    // Signals belong to the program's own threads: Python expects them on its main thread.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started_ < count) {
      const int thread = started_ + 1;
      Worker* worker = workers_[thread] = new Worker;
      std::thread([=] { worker->loop(thread, pending_); }).detach();
      started_ = thread;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  std::mutex turn_;
  int started_ = 0;
  Worker* workers_[MAX_THREADS] = {};
  alignas(64) std::atomic<int> pending_{0};
};

// The pool and its workers are never freed, on purpose: workers are detached and sleep until the process is gone, and
// destroying a condition variable somebody waits on hangs at exit.
std::atomic<Pool*> current{nullptr};

Pool& pool() {
  Pool* found = current.load(std::memory_order_acquire);
  if (found) return *found;
  Pool* made = new Pool;
  if (current.compare_exchange_strong(found, made)) return *made;
  delete made;
  return *found;
}

// A forked child has the pool's memory, perhaps a locked mutex, and none of its threads: it starts a new one.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });

thread_local bool inside = false;

}  // namespace

#if defined(__x86_64__) || defined(__i386__)
FloatMode::FloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
FloatMode::~FloatMode() { _mm_setcsr(static_cast<unsigned>(saved_)); }
#elif defined(__aarch64__)
FloatMode::FloatMode() {
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
}
FloatMode::~FloatMode() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }
#else
FloatMode::FloatMode() : saved_(0) {}
FloatMode::~FloatMode() {}
#endif

void parallel(int threads, void (*body)(void*, int, int), void* context) {
  if (inside) {
    std::fputs("repops: parallel() called inside a parallel region\n", stderr);
    std::abort();
  }
  threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
  inside = true;
  if (threads == 1) {
    FloatMode mode;
    body(context, 0, 1);
  } else {
    pool().run({body, context, threads});
  }
  inside = false;
}

void Barrier::wait_for_others() {
  const uint32_t round = round_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
  } else {
    spin_then_yield([&] { return round_.load(std::memory_order_acquire) != round; });
  }
}

}  // namespace repops

// Bits: 1 avx2 and fma, 2 avx512 (f dq bw vl), 4 neon; only what the operating system saves is counted.
REPOPS_EXPORT int repops_cpu_features() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  return (avx2 ? 1 : 0) | (avx2 && avx512 ? 2 : 0);
#elif defined(__aarch64__)
  return 4;
#else
  return 0;
#endif
}
