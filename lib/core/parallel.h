// Threads: one setting for the process, loops whose result does not depend on it.
#pragma once

#include <cstddef>
#include <functional>

namespace hif8 {

// Number of threads that ParallelFor may use; 0 means one per hardware thread. Default 0.
void SetThreads(int threads);
// Returns how many threads ParallelFor uses here: 1 within a SerialScope.
int Threads();

// Runs body(i) for every i in [0, n), possibly at the same time. Each body must write only its own
// result. The first exception thrown by a body is rethrown here.
void ParallelFor(size_t n, const std::function<void(size_t)>& body);

// While it lives, the thread that made it runs its loops alone: for one of several threads that
// have the same work to do.
class SerialScope {
 public:
  SerialScope();
  ~SerialScope();
  SerialScope(const SerialScope&) = delete;
  SerialScope& operator=(const SerialScope&) = delete;

 private:
  bool outer_;
};

// While it lives, the loops of the thread that made it run on another library's threads: for code
// that such a library calls, and whose threads would stand idle meanwhile.
class ParallelScope {
 public:
  // Calls a body that does not throw for every i in [0, n).
  using Pool = std::function<void(size_t n, const std::function<void(size_t)>& body)>;

  explicit ParallelScope(Pool pool);
  ~ParallelScope();
  ParallelScope(const ParallelScope&) = delete;
  ParallelScope& operator=(const ParallelScope&) = delete;

 private:
  Pool pool_;
  const Pool* outer_;
};

}  // namespace hif8
