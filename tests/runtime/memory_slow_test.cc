// Memory of a calibration pass does not depend on the number of samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "lib/runtime/passes.h"
#include "tests/runtime/test_graph.h"

namespace hif8 {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Resident anonymous memory in kB.
long OwnMemory() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("RssAnon:")) return std::stol(line.substr(8));
  }
  return 0;
}

// The same tensor again and again, in its full length or in changing ones; notes the memory before
// every run.
class CountedData : public Dataset {
 public:
  CountedData(size_t runs, bool changing) : runs_(runs), changing_(changing) {
    std::vector<float> values(static_cast<size_t>(kRows * 256));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    full_ = FloatTensor({1, kRows, 256}, values);
  }
  size_t runs() const override { return runs_; }
  uint64_t samples() const override { return runs_; }
  bool synthetic() const override { return true; }
  DataRun Read(size_t run) override {
    memory.push_back(OwnMemory());
    Tensor x = full_;
    // The longest one is among the first.
    if (changing_ && run > 0) x.view.shape[1] = static_cast<int64_t>(1 + run * 97 % kRows);
    return {{{"x", x}}, 1, "made up"};
  }
  std::vector<long> memory;

 private:
  static constexpr int64_t kRows = 256;
  size_t runs_;
  bool changing_;
  Tensor full_;
};

RunnableGraph ThirtyLayers() {
  std::vector<float> w(256 * 256);
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::cos(static_cast<float>(i)) * 0.1f;
  TestGraph g;
  g.Input("x", {1, -1, 256}).Output("r29", {1, -1, 256});
  std::string tensor = "x";
  for (int i = 0; i < 30; ++i) {
    const std::string n = std::to_string(i);
    g.Weight("w" + n, {256, 256}, w);
    g.Tap(kObserveOp, i, {tensor}, "t" + n);
    g.Node("MatMul", {"t" + n, "w" + n}, {"m" + n});
    g.Node("Relu", {"m" + n}, {"r" + n});
    tensor = "r" + n;
  }
  return g.Build();
}

TEST(Memory, FiveHundredSamplesTakeWhatEightTake) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep freed memory";
  for (const bool changing : {false, true}) {
    CountedData data(512, changing);
    CollectStats(ThirtyLayers(), data, 30, "", NullLog());
    const auto after_eight = static_cast<double>(data.memory[8]);
    const auto most =
        static_cast<double>(*std::max_element(data.memory.begin(), data.memory.end()));
    EXPECT_LT(most, after_eight * 1.05) << (changing ? "changing" : "equal") << " shapes";
  }
}

}  // namespace
}  // namespace hif8
