// Goes over the runs of a dataset, several at a time where that is faster, with results that do not
// depend on how many.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lib/core/log.h"
#include "lib/runtime/dataset.h"

namespace hif8 {

// Does something with each run. Each worker has one run at a time; several workers share networks,
// and nothing else.
class RunWorker {
 public:
  virtual ~RunWorker() = default;
  // Beside other workers, which are at other runs. Threads() is 1 meanwhile where there are others.
  virtual void Run(const DataRun& run) = 0;
  // Hands over what the worker keeps of the run: in the order of the runs, one worker at a time.
  virtual void Commit(const DataRun& run) = 0;
};

class DataRuns {
 public:
  struct Options {
    uint64_t samples = 0;     // only the first so many; 0: all
    bool one_by_one = false;  // one worker sees every run, in order
  };
  DataRuns(Dataset& data, const Options& options);

  // For sessions that the workers share: 1 where each worker is a thread of its own, else 0 (all).
  int session_threads() const { return several_ ? 1 : 0; }

  // Gives every run to a worker, while the next one is being read; one worker after the other is
  // asked for with `make`. The first run goes alone, and shows how many more of them MemoryLimit()
  // has room for. Progress is told under `stage`. Throws, for the first run that failed, what was
  // thrown there, with the file that was being run; kEnvironment when a run went beyond
  // MemoryLimit(); kInterrupted.
  void ForEach(const std::string& stage, LogSink& log,
               const std::function<RunWorker&()>& make) const;

 private:
  Dataset& data_;
  uint64_t samples_;
  bool several_;
};

}  // namespace hif8
