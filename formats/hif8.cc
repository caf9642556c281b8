#include "formats/hif8.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "formats/storage.h"
#include "formats/table_format.h"

namespace hif8 {
namespace {

constexpr uint8_t kNan = 0x80;
constexpr uint8_t kInfinity = 0x6F;
constexpr uint8_t kLargest = 0x6E;
constexpr float kOverflow = 40960;  // 1.25 * 2^15

// One row of the layout: the dot's bits, and how the other bits of the seven are divided.
struct Band {
  int dot;            // value of the prefix code
  int exponent_bits;  // 0: the exponent is 0
  int mantissa_bits;
  int max_exponent;  // largest |e|
};
constexpr std::array<Band, 5> kBands = {
    {{0b0001, 0, 3, 0}, {0b001, 1, 3, 1}, {0b01, 2, 3, 3}, {0b10, 3, 2, 7}, {0b11, 4, 1, 15}}};

const Band& BandOfExponent(int exponent) {
  for (const Band& band : kBands) {
    if (std::abs(exponent) <= band.max_exponent) return band;
  }
  return kBands.back();
}

// The band whose dot code begins the seven bits, or null for a denormal.
const Band* BandOfBits(unsigned bits) {
  for (const Band& band : kBands) {
    if (bits >> (band.exponent_bits + band.mantissa_bits) == static_cast<unsigned>(band.dot)) {
      return &band;
    }
  }
  return nullptr;
}

// The seven bits of 2^exponent * (1 + mantissa / 2^mantissa_bits), with |exponent| <= 15.
unsigned Compose(int exponent, unsigned mantissa) {
  const Band& band = BandOfExponent(exponent);
  unsigned bits = static_cast<unsigned>(band.dot);
  if (band.exponent_bits > 0) {
    const unsigned hidden_one = 1U << (band.exponent_bits - 1);
    const unsigned magnitude = static_cast<unsigned>(std::abs(exponent));
    bits = bits << 1 | (exponent < 0 ? 1U : 0U);
    bits = bits << (band.exponent_bits - 1) | (magnitude ^ hidden_one);
  }
  return bits << band.mantissa_bits | mantissa;
}

std::vector<float> Table() {
  std::vector<float> values(256);
  for (size_t code = 0; code < values.size(); ++code) {
    values[code] = DecodeHif8(static_cast<uint8_t>(code));
  }
  return values;
}

class Hif8Format final : public TableFormat {
 public:
  Hif8Format() : TableFormat(Table(), Ties::kAway) {}

  std::string_view name() const override { return "hif8"; }
  std::string_view description() const override {
    return "HiFloat8: 38 binades, 4 to 1 significant bits tapering away from 1, ties away";
  }
  float OverflowThreshold() const override { return kOverflow; }
  const FormatStorage& storage() const override {
    static const FormatStorage kStorage{.tiles = kUsualTiles};
    return kStorage;
  }
  // The largest value with all its significant bits.
  float TokenTarget() const override { return 15.0F; }
  float DefaultTarget() const override { return 16; }
  bool ClipsAtMax() const override { return false; }
  uint8_t EncodeOne(float x, Overflow overflow) const override { return EncodeHif8(x, overflow); }
};

}  // namespace

float DecodeHif8(uint8_t code) {
  const unsigned bits = code & 0x7F;
  const float sign = code & 0x80 ? -1.0F : 1.0F;
  if (code == kNan) return std::numeric_limits<float>::quiet_NaN();
  if (bits == 0) return 0;
  if (bits == kInfinity) return sign * std::numeric_limits<float>::infinity();
  const Band* band = BandOfBits(bits);
  if (band == nullptr) return sign * std::ldexp(1.0F, static_cast<int>(bits) - 23);
  int exponent = 0;
  if (band->exponent_bits > 0) {
    const unsigned hidden_one = 1U << (band->exponent_bits - 1);
    const unsigned field = bits >> band->mantissa_bits;
    const int magnitude = static_cast<int>((field & (hidden_one - 1)) | hidden_one);
    exponent = field & hidden_one ? -magnitude : magnitude;
  }
  const unsigned ones = 1U << band->mantissa_bits;
  return sign *
         std::ldexp(static_cast<float>(ones | (bits & (ones - 1))), exponent - band->mantissa_bits);
}

uint8_t EncodeHif8(float x, Overflow overflow) {
  const uint32_t word = std::bit_cast<uint32_t>(x);
  const uint8_t sign = word >> 31 ? 0x80 : 0;
  const uint32_t magnitude = word & 0x7FFFFFFF;
  if (std::isnan(x)) return kNan;
  if (std::isinf(x)) return sign | kInfinity;
  if (std::fabs(x) >= kOverflow) {
    return sign | (overflow == Overflow::kSaturate ? kLargest : kInfinity);
  }
  int exponent = static_cast<int>(magnitude >> 23) - 127;  // of fp32 denormals too: far below -23
  if (exponent < -23) return 0;
  if (exponent == -23) return sign | 0x01;
  const int mantissa_bits = exponent < -15 ? 0 : BandOfExponent(exponent).mantissa_bits;
  const int dropped = 23 - mantissa_bits;
  // Half a unit of the last kept bit is added and the rest cut off; a carry moves the exponent up.
  const uint32_t rounded = (magnitude + (1U << (dropped - 1))) >> dropped;
  exponent = static_cast<int>(rounded >> mantissa_bits) - 127;
  if (exponent < -15) return static_cast<uint8_t>(sign | (exponent + 23));
  // After a carry all kept bits are zero, so that the band of the new exponent does not matter.
  return static_cast<uint8_t>(sign | Compose(exponent, rounded & ((1U << mantissa_bits) - 1)));
}

std::shared_ptr<const NumberFormat> MakeHif8Format() { return std::make_shared<Hif8Format>(); }

}  // namespace hif8
