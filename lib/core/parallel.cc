#include "lib/core/parallel.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <thread>

namespace hif8 {
namespace {

std::atomic<int> thread_setting{0};

}  // namespace

void SetThreads(int threads) { thread_setting = threads; }

int Threads() {
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
  tbb::task_arena arena(Threads());
  arena.execute([&] { tbb::parallel_for(size_t{0}, n, body); });
}

}  // namespace hif8
