#include "formats/minifloat.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "formats/table_format.h"

namespace hif8 {
namespace {

std::vector<float> TableOf(const Minifloat& elements) {
  std::vector<float> values(size_t{1} << elements.bits());
  for (size_t code = 0; code < values.size(); ++code) {
    values[code] = elements.Decode(static_cast<uint8_t>(code));
  }
  return values;
}

// Half a step above the largest value; that tie goes down when the largest mantissa is even.
float ThresholdOf(const Minifloat& elements) {
  const float most = elements.Decode(elements.LargestCode());
  const float before = elements.Decode(static_cast<uint8_t>(elements.LargestCode() - 1));
  const float tie = most + (most - before) / 2;
  const bool even = elements.LargestCode() % 2 == 0;
  return even ? std::nextafter(tie, std::numeric_limits<float>::infinity()) : tie;
}

class MinifloatFormat final : public TableFormat {
 public:
  MinifloatFormat(const Minifloat& elements, std::string name, std::string description,
                  const FormatStorage& storage)
      : TableFormat(TableOf(elements), Ties::kEven),
        elements_(elements),
        name_(std::move(name)),
        description_(std::move(description)),
        storage_(storage) {}

  std::string_view name() const override { return name_; }
  std::string_view description() const override { return description_; }
  int bits() const override { return elements_.bits(); }
  const FormatStorage& storage() const override { return storage_; }
  float OverflowThreshold() const override { return ThresholdOf(elements_); }
  float DefaultTarget() const override { return MaxFinite(); }
  uint8_t EncodeOne(float x, Overflow overflow) const override {
    return elements_.Encode(x, overflow);
  }

 private:
  Minifloat elements_;
  std::string name_;
  std::string description_;
  FormatStorage storage_;
};

}  // namespace

float Minifloat::Decode(uint8_t code) const {
  const int mantissa_end = 1 << mantissa_bits;
  const int exponent_end = 1 << exponent_bits;
  const int mantissa = code & (mantissa_end - 1);
  const int exponent = (code >> mantissa_bits) & (exponent_end - 1);
  const float sign = code >> (bits() - 1) & 1 ? -1.0F : 1.0F;
  if (exponent == exponent_end - 1) {
    if (specials == Specials::kNanOnly && mantissa == mantissa_end - 1) {
      return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
    }
    if (specials == Specials::kIeee) {
      return mantissa == 0 ? sign * std::numeric_limits<float>::infinity()
                           : std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
    }
  }
  const int hidden_one = exponent > 0 ? mantissa_end : 0;
  return sign * std::ldexp(static_cast<float>(hidden_one + mantissa),
                           std::max(exponent, 1) - bias - mantissa_bits);
}

uint8_t Minifloat::LargestCode() const {
  const int magnitudes = 1 << (bits() - 1);
  switch (specials) {
    case Specials::kIeee:
      return static_cast<uint8_t>(magnitudes - (1 << mantissa_bits) - 1);
    case Specials::kNanOnly:
      return static_cast<uint8_t>(magnitudes - 2);
    default:
      return static_cast<uint8_t>(magnitudes - 1);
  }
}

uint8_t Minifloat::Encode(float x, Overflow overflow) const {
  const int sign = std::signbit(x) ? 1 << (bits() - 1) : 0;
  const int largest = LargestCode();
  const bool infinite = specials == Specials::kIeee && overflow == Overflow::kInfinity;
  if (std::isnan(x)) {
    return static_cast<uint8_t>(specials == Specials::kNone ? 0 : sign | ((1 << (bits() - 1)) - 1));
  }
  const double magnitude = std::fabs(static_cast<double>(x));
  if (std::isinf(x) || magnitude >= Decode(LargestCode()) * 2.0) {
    return static_cast<uint8_t>(sign | (infinite ? largest + 1 : largest));
  }
  if (magnitude == 0) return static_cast<uint8_t>(sign);
  // In units of the last kept bit, which denormals share with the smallest normal binade.
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const double units = std::ldexp(magnitude, mantissa_bits - exponent);
  const double below = std::floor(units);
  const double rest = units - below;
  const int whole = static_cast<int>(below);
  const int rounded = whole + (rest > 0.5 || (rest == 0.5 && whole % 2 == 1) ? 1 : 0);
  // The hidden one and a carry both count as one step of the exponent field.
  const int code = ((exponent + bias - 1) << mantissa_bits) + rounded;
  return static_cast<uint8_t>(sign | std::min(code, infinite ? largest + 1 : largest));
}

std::shared_ptr<const NumberFormat> MakeMinifloatFormat(const Minifloat& elements, std::string name,
                                                        std::string description,
                                                        const FormatStorage& storage) {
  return std::make_shared<MinifloatFormat>(elements, std::move(name), std::move(description),
                                           storage);
}

}  // namespace hif8
