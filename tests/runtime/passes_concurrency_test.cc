// A pass that reads ahead and shares its counting out gives what one thread gives, in order.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/parallel.h"
#include "lib/runtime/passes.h"
#include "tests/runtime/test_graph.h"

namespace hif8 {
namespace {

constexpr int64_t kSize = 200000;

// Each run is larger than the one before; the last of them may not be readable.
class RisingData : public Dataset {
 public:
  explicit RisingData(size_t readable) : readable_(readable) {}
  size_t runs() const override { return 6; }
  uint64_t samples() const override { return 6; }
  bool synthetic() const override { return false; }
  DataRun Read(size_t run) override {
    if (run == readable_) throw ModelError("cannot read", {}, "run " + std::to_string(run));
    std::vector<float> values(static_cast<size_t>(kSize));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(run + 1) * std::sin(static_cast<float>(i));
    }
    values[7] = 2.0F * static_cast<float>(run + 1);
    return {{{"x", FloatTensor({1, kSize}, values)}}, 1, "run " + std::to_string(run)};
  }

 private:
  size_t readable_;
};

RunnableGraph Observed() {
  TestGraph g;
  g.Input("x", {1, kSize}).Output("y", {1, kSize});
  g.Tap(kObserveOp, 0, {"x"}, "t");
  g.Node("Relu", {"t"}, {"y"});
  return g.Build();
}

class PassesConcurrency : public testing::Test {
 protected:
  void TearDown() override { SetThreads(0); }
};

TEST_F(PassesConcurrency, RecordsAreThoseOfOneThread) {
  const auto collect = [](int threads) {
    SetThreads(threads);
    RisingData data(6);
    return CollectStats(Observed(), data, 1, "", NullLog())[0].Serialize();
  };
  const std::string one = collect(1);
  const TensorStats stats = TensorStats::Parse(one, "");
  EXPECT_EQ(stats.count(), 6u * kSize);
  EXPECT_EQ(std::vector<float>(stats.trace().begin(), stats.trace().end()),
            (std::vector<float>{2, 4, 6, 8, 10, 12}));
  for (const int threads : {2, 5}) EXPECT_EQ(collect(threads), one) << threads;
}

TEST_F(PassesConcurrency, WhatCannotBeReadFailsInItsTurn) {
  SetThreads(2);
  RisingData data(3);
  size_t observed = 0;
  const auto count = [&](int, const TensorView&, size_t) { ++observed; };
  try {
    CollectStats(Observed(), data, 1, "", NullLog(), count);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "run 3");
  }
  EXPECT_EQ(observed, 3u);
}

}  // namespace
}  // namespace hif8
