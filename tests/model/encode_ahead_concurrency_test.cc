// Weights encoded by a thread of their own arrive in order, and only so many wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "lib/model/safetensors/encode_ahead.h"

namespace hif8 {
namespace {

std::vector<EncodeAhead::Item> Items(int count, uint64_t bytes) {
  std::vector<EncodeAhead::Item> items;
  items.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) items.push_back({i, bytes});
  return items;
}

EncodedWeight Encoded(int weight) {
  EncodedWeight encoded;
  encoded.format = std::to_string(weight);
  encoded.codes.assign(100, static_cast<uint8_t>(weight));
  return encoded;
}

TEST(EncodeAhead, GivesTheWeightsInOrder) {
  EncodeAhead ahead(Items(200, 100), Encoded, 1000);
  for (int i = 0; i < 200; ++i) {
    const EncodedWeight encoded = ahead.Take();
    EXPECT_EQ(encoded.format, std::to_string(i));
    EXPECT_EQ(encoded.codes, std::vector<uint8_t>(100, static_cast<uint8_t>(i)));
  }
}

TEST(EncodeAhead, HoldsNoMoreThanItsLimit) {
  std::atomic<int> made{0};
  std::atomic<int> taken{0};
  int most = 0;  // written by the encoding thread, read after it has ended
  {
    EncodeAhead ahead(
        Items(50, 100),
        [&](int weight) {
          // The one being made counts, and so does the one that Take() gave last.
          most = std::max(most, ++made - taken);
          return Encoded(weight);
        },
        300);
    for (int i = 0; i < 50; ++i) {
      // What Take() gave before is released when it is called again, so not before this count.
      if (i > 0) ++taken;
      ahead.Take();
    }
  }
  EXPECT_LE(most, 3);
  EXPECT_GE(most, 1);
}

TEST(EncodeAhead, TakesAWeightThatIsLargerThanTheLimit) {
  EncodeAhead ahead(Items(3, 5000), Encoded, 1000);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ahead.Take().format, std::to_string(i));
}

TEST(EncodeAhead, RethrowsWhereTheFailedWeightWouldBe) {
  EncodeAhead ahead(
      Items(10, 100),
      [](int weight) {
        if (weight == 2) throw std::runtime_error("weight 2");
        return Encoded(weight);
      },
      100000);
  EXPECT_EQ(ahead.Take().format, "0");
  EXPECT_EQ(ahead.Take().format, "1");
  EXPECT_THROW(ahead.Take(), std::runtime_error);
}

TEST(EncodeAhead, StopsWhenNobodyTakesTheRest) {
  std::atomic<int> made{0};
  {
    EncodeAhead ahead(
        Items(1000, 100),
        [&](int weight) {
          ++made;
          return Encoded(weight);
        },
        300);
    ahead.Take();
  }
  EXPECT_LE(made, 5);
}

}  // namespace
}  // namespace hif8
