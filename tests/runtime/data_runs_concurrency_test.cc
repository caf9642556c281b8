// Runs that are worked on side by side give what one after the other gives.
#include "lib/runtime/data_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/memory.h"
#include "lib/core/parallel.h"
#include "lib/core/sanitizer.h"
#include "lib/runtime/passes.h"
#include "tests/runtime/test_graph.h"

namespace hif8 {
namespace {

constexpr size_t kRuns = 40;
constexpr int64_t kSize = 300;

std::vector<float> ValuesOf(size_t run) {
  std::vector<float> values(static_cast<size_t>(kSize));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i + 1000 * run)) *
                                   std::exp(static_cast<double>(run % 7)));
  }
  return values;
}

class NumberedData : public Dataset {
 public:
  explicit NumberedData(size_t readable = kRuns) : readable_(readable) {}
  size_t runs() const override { return kRuns; }
  uint64_t samples() const override { return kRuns; }
  bool synthetic() const override { return false; }
  DataRun Read(size_t run) override {
    if (run == readable_) throw ModelError("cannot read", {}, "run " + std::to_string(run));
    return {{{"x", FloatTensor({1, kSize}, ValuesOf(run))}}, 1, std::to_string(run)};
  }

 private:
  size_t readable_;
};

// What the workers of a test did together.
struct Record {
  std::mutex mutex;
  std::vector<size_t> run;
  std::vector<size_t> committed;
  size_t fails = kRuns;  // from this run on
};

// Earlier runs take longer than later ones.
class RecordingWorker : public RunWorker {
 public:
  explicit RecordingWorker(Record* record) : record_(*record) {}
  void Run(const DataRun& run) override {
    const size_t index = std::stoul(run.where);
    std::this_thread::sleep_for(std::chrono::microseconds(200 * (kRuns - index)));
    const std::lock_guard lock(record_.mutex);
    record_.run.push_back(index);
    if (index >= record_.fails) throw ModelError("failed", "try again");
  }
  void Commit(const DataRun& run) override { record_.committed.push_back(std::stoul(run.where)); }

 private:
  Record& record_;
};

size_t RunWorkers(NumberedData* data, Record* record, uint64_t samples = 0) {
  std::deque<RecordingWorker> workers;
  DataRuns(*data, {.samples = samples}).ForEach("", NullLog(), [&]() -> RunWorker& {
    return workers.emplace_back(record);
  });
  return workers.size();
}

std::vector<size_t> First(size_t n) {
  std::vector<size_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

class DataRunsTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { SetThreads(GetParam()); }
  void TearDown() override {
    SetThreads(0);
    SetMemoryLimit(0);
  }
};

TEST_P(DataRunsTest, EveryRunOnceAndHandedOverInOrder) {
  NumberedData data;
  Record record;
  EXPECT_EQ(RunWorkers(&data, &record), static_cast<size_t>(GetParam()));
  EXPECT_EQ(record.committed, First(kRuns));
  EXPECT_THAT(record.run, testing::UnorderedElementsAreArray(First(kRuns)));
}

TEST_P(DataRunsTest, StopsAfterTheWantedSamples) {
  NumberedData data;
  Record record;
  RunWorkers(&data, &record, 13);
  EXPECT_EQ(record.committed, First(13));
}

TEST_P(DataRunsTest, TheFirstRunThatFailsIsReported) {
  NumberedData data;
  Record record;
  record.fails = 20;
  try {
    RunWorkers(&data, &record);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "20");
  }
  EXPECT_EQ(record.committed, First(20));
  EXPECT_LE(record.run.size(), 20u + static_cast<size_t>(2 * GetParam()));
}

TEST_P(DataRunsTest, WhatCannotBeReadFailsInItsTurn) {
  NumberedData data(25);
  Record record;
  try {
    RunWorkers(&data, &record);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "run 25");
  }
  EXPECT_EQ(record.committed, First(25));
}

// The first run takes memory that the limit has no second time.
class Hungry : public RecordingWorker {
 public:
  explicit Hungry(Record* record) : RecordingWorker(record), memory_(0) {}
  void Run(const DataRun& run) override {
    memory_.resize(size_t{32} << 20, '\1');
    RecordingWorker::Run(run);
  }

 private:
  std::vector<char> memory_;
};

TEST_P(DataRunsTest, AsManyWorkersAsThereIsMemoryFor) {
  if (kSanitizedBuild) GTEST_SKIP() << "sanitizers take memory of their own";
  const uint64_t own = OwnMemory();
  if (own == 0) GTEST_SKIP() << "the system does not tell how much memory a process has";
  for (const size_t room : {1, 2}) {
    SetMemoryLimit(own + (room * 32 + 20) * (uint64_t{1} << 20));
    NumberedData data;
    Record record;
    std::deque<Hungry> workers;
    DataRuns(data, {}).ForEach("", NullLog(),
                               [&]() -> RunWorker& { return workers.emplace_back(&record); });
    EXPECT_EQ(workers.size(), std::min(room, static_cast<size_t>(GetParam())));
    EXPECT_EQ(record.committed, First(kRuns));
  }
}

RunnableGraph Observed() {
  TestGraph g;
  g.Input("x", {1, kSize}).Output("y", {1, kSize});
  g.Tap(kObserveOp, 0, {"x"}, "t");
  g.Node("Relu", {"t"}, {"r"});
  g.Tap(kObserveOp, 1, {"r"}, "y");
  return g.Build();
}

TEST_P(DataRunsTest, RecordsAreThoseOfOneRunAfterTheOther) {
  NumberedData data;
  const auto stats = CollectStats(Observed(), data, 3, "", NullLog());
  for (const size_t tap : {0, 1}) {
    TensorStats expected;
    for (size_t run = 0; run < kRuns; ++run) {
      std::vector<float> values = ValuesOf(run);
      for (float& v : values) v = tap == 0 ? v : std::max(v, 0.0F);
      expected.Add(FloatTensor({kSize}, values).view);
    }
    EXPECT_EQ(stats[tap].Serialize(), expected.Serialize());
  }
  EXPECT_EQ(stats[2].samples(), 0u);
}

// x -> floor(x) -> y; the quantized network doubles y.
EvaluationGraphs Pair() {
  EvaluationGraphs graphs;
  TestGraph g;
  g.Input("x", {1, kSize}).Output("y", {1, kSize});
  g.Node("Floor", {"x"}, {"q"});
  g.Tap(kCompareOp, 0, {"x", "q"}, "t");
  g.Tap(kObserveOp, 1, {"t"}, "y");
  graphs.original = g.Build();
  graphs.original_taps = {{TapKind::kActivation, 0}, {TapKind::kLayerOutput, 0}};
  TestGraph q;
  q.Input("x", {1, kSize}).Output("y", {1, kSize});
  q.Node("Add", {"x", "x"}, {"d"});
  q.Tap(kObserveOp, 0, {"d"}, "y");
  graphs.quantized = q.Build();
  graphs.quantized_taps = {{TapKind::kLayerOutput, 0}};
  return graphs;
}

TEST_P(DataRunsTest, ErrorsAreThoseOfOneRunAfterTheOther) {
  NumberedData data;
  const Measurement result = MeasureGraphs(
      Pair(), data, {.activations = 1, .layers = 1, .quantized = {}, .operators = {}, .stage = ""},
      NullLog());
  ErrorMetrics rounded;
  ErrorMetrics doubled;
  for (size_t run = 0; run < kRuns; ++run) {
    const std::vector<float> x = ValuesOf(run);
    std::vector<float> q;
    std::vector<float> d;
    q.reserve(x.size());
    d.reserve(x.size());
    for (const float v : x) {
      q.push_back(std::floor(v));
      d.push_back(2 * v);
    }
    ErrorMetrics part;
    part.Add(x, q);
    rounded.Merge(part);
    ErrorMetrics twice;
    twice.Add(x, d);
    doubled.Merge(twice);
  }
  EXPECT_EQ(result.samples, kRuns);
  EXPECT_EQ(result.activation[0].SqnrDb(), rounded.SqnrDb());
  EXPECT_EQ(result.accumulated[0].SqnrDb(), doubled.SqnrDb());
  EXPECT_EQ(result.outputs[0].error.count(), kRuns * static_cast<size_t>(kSize));
  EXPECT_NEAR(result.outputs[0].error.SqnrDb(), 0, 1e-12) << "the error is as large as the signal";
}

INSTANTIATE_TEST_SUITE_P(Threads, DataRunsTest, testing::Values(1, 2, 3, 6));

TEST(DataRuns, FewRunsShareTheThreads) {
  class Few : public NumberedData {
    size_t runs() const override { return 3; }
  };
  SetThreads(2);
  Few few;
  NumberedData many;
  EXPECT_EQ(DataRuns(few, {}).session_threads(), 0);
  EXPECT_EQ(DataRuns(many, {}).session_threads(), 1);
  EXPECT_EQ(DataRuns(many, {.one_by_one = true}).session_threads(), 0);
  SetThreads(0);
}

}  // namespace
}  // namespace hif8
