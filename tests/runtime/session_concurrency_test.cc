// What runs on several threads gives what it gives on one.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "formats/builtin.h"
#include "lib/runtime/session.h"
#include "tests/runtime/quantize_model.h"

namespace hif8 {
namespace {

TEST(SessionConcurrency, TheQuantizeOperatorDoesNotDependOnThreads) {
  const std::vector<float> x = ManyFloats();
  const auto n = static_cast<int64_t>(x.size());
  const NamedTensors inputs = {{"x", FloatTensor({n}, x)}, {"scale", FloatTensor({}, {0.37f})}};
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 4}) {
    Session session(
        QuantizeModel({-1}, {}).Build(),
        {.threads = threads,
         .log = nullptr,
         .taps = nullptr,
         .operators = {{"ai.hif8", "QuantizeDequantizeLinear", &BuiltinFormats().Get("hif8")}}});
    results.push_back(Floats(session.Run(inputs)[0].view));
  }
  for (const auto& result : results) {
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)), 0);
  }
}

class CountingSink : public TapSink {
 public:
  void Observe(int, const TensorView& x) override {
    for (const float v : Floats(x)) sum += v;
  }
  void Compare(int, const TensorView&, const TensorView&) override {}
  double sum = 0;
};

TEST(SessionConcurrency, SessionsRunSideBySide) {
  TestGraph g;
  g.Input("x", {1000}).Output("y", {1000});
  g.Tap(kObserveOp, 0, {"x"}, "x1");
  g.Node("Neg", {"x1"}, {"y"});
  const RunnableGraph graph = g.Build();
  std::vector<double> sums(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([&, t] {
      CountingSink sink;
      Session session(graph, {.threads = 2, .log = nullptr, .taps = &sink, .operators = {}});
      for (int run = 0; run < 20; ++run) {
        session.Run({{"x", FloatTensor({1000}, std::vector<float>(1000, static_cast<float>(t)))}});
      }
      sums[t] = sink.sum;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < sums.size(); ++t) {
    EXPECT_EQ(sums[t], 20 * 1000 * static_cast<double>(t));
  }
}

}  // namespace
}  // namespace hif8
