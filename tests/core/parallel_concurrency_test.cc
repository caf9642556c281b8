#include "lib/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace hif8 {
namespace {

// Restores the process-wide setting, so that the tests do not depend on their order.
class ParallelFor : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { SetThreads(GetParam()); }
  void TearDown() override { SetThreads(0); }
};

TEST_P(ParallelFor, RunsEveryIndexOnce) {
  constexpr size_t kCount = 10007;
  std::vector<int> visits(kCount, 0);
  hif8::ParallelFor(kCount, [&](size_t i) { ++visits[i]; });
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(visits[i], 1) << "index " << i;
}

TEST_P(ParallelFor, SeesWhatCameBeforeAndIsSeenAfter) {
  std::vector<size_t> input(1000), output(1000);
  std::iota(input.begin(), input.end(), size_t{1});
  hif8::ParallelFor(input.size(), [&](size_t i) { output[i] = 2 * input[i]; });
  size_t sum = 0;
  for (const size_t value : output) sum += value;
  EXPECT_EQ(sum, 1000u * 1001u);
}

TEST_P(ParallelFor, RunsNothingForZero) {
  hif8::ParallelFor(0, [](size_t) { FAIL() << "a body ran"; });
}

TEST_P(ParallelFor, RethrowsAnExceptionOfABody) {
  std::atomic<int> ran{0};
  EXPECT_THROW(hif8::ParallelFor(100,
                                 [&](size_t i) {
                                   ++ran;
                                   if (i == 17) throw std::runtime_error("seventeen");
                                 }),
               std::runtime_error);
  EXPECT_GE(ran, 1);
}

TEST_P(ParallelFor, MayBeNested) {
  std::vector<std::vector<int>> visits(20, std::vector<int>(20, 0));
  hif8::ParallelFor(20,
                    [&](size_t i) { hif8::ParallelFor(20, [&](size_t j) { visits[i][j] += 1; }); });
  for (const std::vector<int>& row : visits) {
    for (const int count : row) ASSERT_EQ(count, 1);
  }
}

// Another library's threads: two of them, which take turns.
void RunOnTwoThreads(size_t n, const std::function<void(size_t)>& body) {
  std::thread other([&] {
    for (size_t i = 1; i < n; i += 2) body(i);
  });
  for (size_t i = 0; i < n; i += 2) body(i);
  other.join();
}

TEST_P(ParallelFor, RunsInTheThreadsOfAScope) {
  if (GetParam() == 1) GTEST_SKIP() << "one thread needs no pool";
  std::vector<int> visits(101, 0);
  std::atomic<int> loops{0};
  {
    const ParallelScope scope([&](size_t n, const std::function<void(size_t)>& body) {
      ++loops;
      RunOnTwoThreads(n, body);
    });
    hif8::ParallelFor(visits.size(), [&](size_t i) { ++visits[i]; });
    EXPECT_EQ(loops, 1);
    // A loop within a body runs elsewhere.
    hif8::ParallelFor(2, [&](size_t) { hif8::ParallelFor(3, [](size_t) {}); });
    EXPECT_EQ(loops, 2);
    EXPECT_THROW(hif8::ParallelFor(100,
                                   [](size_t i) {
                                     if (i >= 50) throw std::runtime_error("fifty and more");
                                   }),
                 std::runtime_error);
    EXPECT_EQ(loops, 3);
  }
  hif8::ParallelFor(visits.size(), [&](size_t i) { ++visits[i]; });
  EXPECT_EQ(loops, 3);
  EXPECT_EQ(visits, std::vector<int>(101, 2));
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelFor, testing::Values(1, 2, 3, 8),
                         [](const auto& given) { return std::to_string(given.param); });

}  // namespace
}  // namespace hif8
