#include "lib/numeric/packed_codes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hif8 {
namespace {

TEST(PackedCodes, LowHalfFirstAndOddRowsPadded) {
  const std::vector<uint8_t> codes = {1, 2, 3, 10, 11, 12};
  std::vector<uint8_t> packed(4, 0xFF);
  PackCodes(codes, 3, packed);
  EXPECT_EQ(packed, (std::vector<uint8_t>{0x21, 0x03, 0xBA, 0x0C}));
}

TEST(PackedCodes, RoundTrip) {
  std::mt19937 random(1);
  for (const size_t columns : {1U, 2U, 7U, 32U, 33U}) {
    std::vector<uint8_t> codes(5 * columns);
    for (uint8_t& code : codes) code = random() % 16;
    std::vector<uint8_t> packed(5 * PackedRowBytes(columns)), back(codes.size(), 0xFF);
    PackCodes(codes, columns, packed);
    UnpackCodes(packed, columns, back);
    EXPECT_EQ(back, codes) << columns;
  }
}

}  // namespace
}  // namespace hif8
