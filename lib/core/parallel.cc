#include "lib/core/parallel.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lib/core/sanitizer.h"

namespace hif8 {
namespace {

std::atomic<int> thread_setting{0};
thread_local const ParallelScope::Pool* current_pool = nullptr;
thread_local bool serial = false;

// What concurrent bodies threw first.
class FirstFailure {
 public:
  void Keep() {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  void Rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

void RunInPool(const ParallelScope::Pool& pool, size_t n, const std::function<void(size_t)>& body) {
  FirstFailure failure;
  pool(n, [&](size_t i) {
    // Loops within the body do not wait for threads that wait for the body.
    const ParallelScope::Pool* const outer = std::exchange(current_pool, nullptr);
    try {
      body(i);
    } catch (...) {
      failure.Keep();
    }
    current_pool = outer;
  });
  failure.Rethrow();
}

#ifdef HIF8_THREAD_SANITIZER
// The thread sanitizer cannot see how the system's oneTBB, built without it, orders its tasks, and
// would report every body as a race. It knows std::thread, so under it the bodies run on these: the
// same concurrency, visibly ordered.
void RunConcurrently(size_t n, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  FirstFailure failure;
  auto work = [&] {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
      try {
        body(i);
      } catch (...) {
        failure.Keep();
        next = n;
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = std::min(n, static_cast<size_t>(Threads())); t > 1; --t) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) thread.join();
  failure.Rethrow();
}
#else
void RunConcurrently(size_t n, const std::function<void(size_t)>& body) {
  // oneTBB warns on stderr when asked for more workers than there are processors.
  const int processors = tbb::this_task_arena::max_concurrency();
  tbb::task_arena arena(std::min(Threads(), std::max(processors, 1)));
  arena.execute([&] { tbb::parallel_for(size_t{0}, n, body); });
}
#endif

// Returns how many of `most` threads the system lets run at the same time.
int StartableThreads(int most) {
  std::latch end(1);
  std::vector<std::thread> threads;
  try {
    while (static_cast<int>(threads.size()) < most) threads.emplace_back([&end] { end.wait(); });
  } catch (const std::system_error&) {  // that many
  }
  end.count_down();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size());
}

}  // namespace

// oneTBB ends the process where the system refuses a thread to it, so what there is room for is
// tried beforehand: twice the threads (the engine has as many of its own), one per processor, and
// those that read, encode and write beside them.
void SetThreads(int threads) {
  constexpr int kBeside = 8;
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  const int wanted = threads > 0 ? threads : std::max(processors, 1);
  const int all = 2 * wanted + processors + kBeside;
  const int startable = StartableThreads(all);
  thread_setting =
      startable == all ? threads : std::clamp((startable - processors - kBeside) / 2, 1, wanted);
}

int Threads() {
  if (serial) return 1;
  const int set = thread_setting;
  if (set > 0) return set;
  const unsigned found = std::thread::hardware_concurrency();
  return found > 0 ? static_cast<int>(found) : 1;
}

void ParallelFor(size_t n, const std::function<void(size_t)>& body) {
  if (n == 0) return;
  if (n == 1 || Threads() == 1) {
    for (size_t i = 0; i < n; ++i) body(i);
    return;
  }
  if (current_pool != nullptr) return RunInPool(*current_pool, n, body);
  RunConcurrently(n, body);
}

SerialScope::SerialScope() : outer_(std::exchange(serial, true)) {}

SerialScope::~SerialScope() { serial = outer_; }

ParallelScope::ParallelScope(Pool pool)
    : pool_(std::move(pool)), outer_(std::exchange(current_pool, &pool_)) {}

ParallelScope::~ParallelScope() { current_pool = outer_; }

}  // namespace hif8
