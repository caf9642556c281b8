// Values made ahead by a thread of their own: in order, one at a time, errors where they belong.
#include "lib/core/one_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

namespace hif8 {
namespace {

// 0, 1, ..., count - 1.
std::function<std::optional<int>()> Counting(int count, std::atomic<int>* made) {
  return [=]() -> std::optional<int> {
    if (*made == count) return std::nullopt;
    return (*made)++;
  };
}

TEST(OneAhead, GivesAllValuesInOrderAndThenNothing) {
  std::atomic<int> made{0};
  OneAhead<int> ahead(Counting(500, &made));
  for (int i = 0; i < 500; ++i) ASSERT_EQ(ahead.Take(), i);
  EXPECT_EQ(ahead.Take(), std::nullopt);
}

TEST(OneAhead, SeesWhatWasMade) {
  int at = 0;
  OneAhead<std::vector<int>> ahead([&]() -> std::optional<std::vector<int>> {
    if (at == 50) return std::nullopt;
    ++at;
    return std::vector<int>(100, at);
  });
  for (int i = 1; i <= 50; ++i) ASSERT_EQ(ahead.Take(), std::vector<int>(100, i));
}

TEST(OneAhead, MakesNoMoreThanOneBeyondTheOneInUse) {
  std::atomic<int> made{0};
  std::atomic<int> taken{0};
  int most = 0;  // written by the making thread, read after it has ended
  {
    OneAhead<int> ahead([&]() -> std::optional<int> {
      if (made == 100) return std::nullopt;
      // This one counts; a Take() that is about to return may not have been counted yet.
      most = std::max(most, ++made - taken);
      return made.load();
    });
    for (int i = 0; i < 100; ++i) {
      ahead.Take();
      ++taken;
    }
  }
  EXPECT_GE(most, 1);
  EXPECT_LE(most, 2);
}

TEST(OneAhead, RethrowsWhereTheFailedValueWouldBe) {
  int at = 0;
  OneAhead<int> ahead([&]() -> std::optional<int> {
    if (at == 2) throw std::runtime_error("value 2");
    return at++;
  });
  EXPECT_EQ(ahead.Take(), 0);
  EXPECT_EQ(ahead.Take(), 1);
  EXPECT_THROW(ahead.Take(), std::runtime_error);
}

TEST(OneAhead, StopsWhenNobodyTakesTheRest) {
  std::atomic<int> made{0};
  {
    OneAhead<int> ahead(Counting(1000, &made));
    ahead.Take();
  }
  EXPECT_LE(made, 2);
  { OneAhead<int> untouched(Counting(1000, &made)); }
  EXPECT_LE(made, 3);
}

}  // namespace
}  // namespace hif8
