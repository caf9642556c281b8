#include "lib/runtime/data_runs.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/core/memory.h"
#include "lib/core/one_ahead.h"
#include "lib/core/parallel.h"

namespace hif8 {
namespace {

// With fewer runs than these, threads that share one run are quicker than threads with a run each.
constexpr size_t kEnoughRuns = 12;

// The error says which file was being run.
std::exception_ptr WithFile(std::exception_ptr thrown, const DataRun& run, bool synthetic) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    if (!error.where().empty() || error.code() == ErrorCode::kInterrupted) return thrown;
    std::string hint = error.hint();
    if (synthetic && error.code() == ErrorCode::kModel) {
      hint = "made-up data may not suit this model: give real data, or " + hint;
    }
    return std::make_exception_ptr(Error(error.code(), error.message(), hint, run.where));
  } catch (...) {
    return thrown;
  }
}

// One pass, shared by its workers.
class Pass {
 public:
  Pass(Dataset& data, uint64_t samples, const std::string& stage, LogSink& log)
      : data_(data),
        total_(samples == 0 ? data.runs() : samples),
        by_samples_(samples > 0),
        stage_(stage),
        log_(log),
        reader_([this] { return Read(); }) {
    log_.Progress(stage_, 0, total_);
  }

  // Runs at most so many; returns when there are no more, or one has failed.
  void Work(RunWorker* worker, size_t most = std::numeric_limits<size_t>::max()) {
    for (size_t i = 0; i < most && WorkOnOne(worker);) ++i;
  }

  // When all workers have returned.
  void Finish() {
    if (failure_) std::rethrow_exception(failure_);
    log_.Progress(stage_, total_, total_);
  }

 private:
  std::optional<DataRun> Read() {
    if (to_read_ == data_.runs() || (by_samples_ && read_ >= total_)) return std::nullopt;
    DataRun run = data_.Read(to_read_++);
    read_ += run.samples;
    return run;
  }

  bool WorkOnOne(RunWorker* worker) {
    std::optional<DataRun> run;
    std::exception_ptr error;
    size_t index = 0;
    {
      const std::lock_guard lock(taking_);
      if (ended_) return false;
      index = taken_++;
      try {
        run = reader_.Take();
      } catch (...) {
        error = std::current_exception();
      }
      ended_ = !run;
    }
    if (run) {
      try {
        CheckInterrupt();
        worker->Run(*run);
        CheckOwnMemory("the run of " + std::to_string(run->samples) +
                       (run->samples == 1 ? " sample" : " samples"));
      } catch (...) {
        error = WithFile(std::current_exception(), *run, data_.synthetic());
      }
    }
    return Commit(worker, index, run, error);
  }

  bool Commit(RunWorker* worker, size_t index, const std::optional<DataRun>& run,
              std::exception_ptr error) {
    std::unique_lock lock(committing_);
    turn_.wait(lock, [&] { return committed_ == index; });
    if (run && !error && !failure_) {
      try {
        worker->Commit(*run);
        done_ += by_samples_ ? run->samples : 1;
        log_.Progress(stage_, std::min(done_, total_), total_);
      } catch (...) {
        error = WithFile(std::current_exception(), *run, data_.synthetic());
      }
    }
    if (error && !failure_) failure_ = error;
    ++committed_;
    turn_.notify_all();
    return run && !failure_;
  }

  Dataset& data_;
  const uint64_t total_;
  const bool by_samples_;
  const std::string& stage_;
  LogSink& log_;

  size_t to_read_ = 0;  // the reader's
  uint64_t read_ = 0;
  OneAhead<DataRun> reader_;

  std::mutex taking_;
  size_t taken_ = 0;
  bool ended_ = false;

  std::mutex committing_;
  std::condition_variable turn_;
  size_t committed_ = 0;
  uint64_t done_ = 0;
  std::exception_ptr failure_;  // of the first run that failed
};

// How many workers there is room for beside the first, whose run took this much memory.
size_t RoomFor(uint64_t taken) {
  constexpr uint64_t kLeast = uint64_t{1} << 20;
  const uint64_t limit = MemoryLimit();
  return (limit - std::min(limit, OwnMemory())) / std::max(taken, kLeast);
}

}  // namespace

DataRuns::DataRuns(Dataset& data, const Options& options) : data_(data), samples_(options.samples) {
  const auto threads = static_cast<size_t>(Threads());
  several_ =
      !options.one_by_one && threads > 1 && data.runs() >= std::min(2 * threads, kEnoughRuns);
}

void DataRuns::ForEach(const std::string& stage, LogSink& log,
                       const std::function<RunWorker&()>& make) const {
  Pass pass(data_, samples_, stage, log);
  RunWorker& first = make();
  if (!several_) {
    pass.Work(&first);
    pass.Finish();
    return;
  }
  const size_t most = std::min(data_.runs(), static_cast<size_t>(Threads())) - 1;
  const SerialScope serial;
  const uint64_t before = OwnMemory();
  pass.Work(&first, 1);
  const uint64_t after = OwnMemory();
  {
    std::vector<std::jthread> others;
    for (size_t n = std::min(most, RoomFor(after - std::min(before, after))); n > 0; --n) {
      RunWorker& worker = make();
      try {
        others.emplace_back([&pass, &worker] {
          const SerialScope scope;
          pass.Work(&worker);
        });
      } catch (const std::system_error&) {
        break;  // no more threads: fewer do the work
      }
    }
    pass.Work(&first);
  }
  pass.Finish();
}

}  // namespace hif8
