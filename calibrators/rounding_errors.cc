#include "calibrators/rounding_errors.h"

#include <algorithm>
#include <cmath>

namespace hif8 {
namespace {

bool IsPowerOfTwo(float x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5F;
}

// The steps between a format's values.
struct Steps {
  int lowest = 0;            // exponent of the smallest value
  std::vector<float> steps;  // by exponent, from `lowest` on
  float smallest = 0, largest = 0;

  // Nothing where they are not even within an exponent.
  static std::optional<Steps> Of(std::span<const float> decode_table) {
    std::vector<float> values = {0};
    for (const float value : decode_table) {
      if (std::isfinite(value) && value > 0) values.push_back(value);
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    if (values.size() < 2) return std::nullopt;
    Steps result;
    result.smallest = values[1];
    result.largest = values.back();
    result.lowest = std::ilogb(values[1]);
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      // Every exponent between these two must have their distance as its step, and both must be
      // multiples of it.
      const float step = values[i + 1] - values[i];
      if (!IsPowerOfTwo(step) || std::fmod(values[i], step) != 0) return std::nullopt;
      const int first = i == 0 ? result.lowest : std::ilogb(values[i]);
      const int last = std::ilogb(std::nextafter(values[i + 1], 0.0F));
      for (int e = first; e <= last; ++e) {
        const auto at = static_cast<size_t>(e - result.lowest);
        if (at == result.steps.size()) result.steps.push_back(step);
        if (result.steps[at] != step) return std::nullopt;
      }
    }
    if (result.steps.empty()) result.steps.push_back(result.smallest);
    return result;
  }

  // The exponents with the most bits, where all above and below have fewer and fewer.
  std::optional<WidestBand> Band() const {
    constexpr size_t kNarrow = 4;  // exponents
    const auto bits_at = [&](size_t i) {
      return lowest + static_cast<int>(i) - std::ilogb(this->steps[i]);
    };
    int most = 0;
    for (size_t i = 0; i < this->steps.size(); ++i) most = std::max(most, bits_at(i));
    size_t first = 0;
    while (bits_at(first) < most) ++first;
    size_t last = first;
    while (last + 1 < this->steps.size() && bits_at(last + 1) == most) ++last;
    for (size_t i = 0; i < first; ++i) {
      if (bits_at(i) > bits_at(i + 1)) return std::nullopt;
    }
    if (last - first + 1 < kNarrow) return std::nullopt;
    const float above = std::ldexp(1.0F, lowest + static_cast<int>(last) + 1);
    return WidestBand{most, std::min(above, largest)};
  }

  // Beyond the largest value there is only that, a multiple of the last step.
  float At(int exponent) const {
    if (exponent < lowest) return smallest;
    return steps[std::min(static_cast<size_t>(exponent - lowest), steps.size() - 1)];
  }
};

}  // namespace

std::optional<RoundingTables> RoundingTables::Make(std::span<const float> decode_table,
                                                   float target, int octaves) {
  const std::optional<Steps> steps = Steps::Of(decode_table);
  if (!steps) return std::nullopt;
  RoundingTables result;
  result.octaves_ = octaves;
  result.band_ = steps->Band();
  // y is up to twice the target, and a little more where scales are rounded.
  result.top_ = std::ilogb(target) + 2;
  for (int octave = -octaves; octave <= octaves; ++octave) {
    RoundingTable& table = result.tables_.emplace_back();
    for (size_t k = 0; k < kRoundingExponents; ++k) {
      const int exponent = result.top_ + 1 - static_cast<int>(kRoundingExponents - k);
      table.shift[k] = std::ldexp(1.5F * steps->At(exponent - octave), 23 + octave);
    }
    table.largest = std::ldexp(steps->largest, octave);
  }
  return result;
}

RoundingErrors::RoundingErrors(const RoundingTables& tables, std::span<const float> values,
                               float base)
    : tables_(tables),
      base_exponent_(std::ilogb(base)),
      size_((values.size() + kRoundingLanes - 1) / kRoundingLanes * kRoundingLanes) {
  const auto end = std::transform(values.begin(), values.end(), magnitudes_.begin(),
                                  [](float v) { return std::abs(v); });
  std::fill(end, magnitudes_.begin() + static_cast<std::ptrdiff_t>(size_), 0.0F);
}

void RoundingErrors::SquaredErrors(float scale, int first, std::span<double> errors) const {
  const int octave = std::ilogb(scale) - base_exponent_;
  const double nearby = std::ldexp(static_cast<double>(scale), -octave);
  SumRoundingErrors(magnitudes_.data(), size_, static_cast<float>(1 / nearby), tables_.top(),
                    tables_.From(octave + first, errors.size()), errors.data());
  for (double& error : errors) error *= nearby * nearby;
}

std::vector<double> RoundingErrors::LeastErrors(std::span<const float> scales, int bits) const {
  std::vector<float> factors;
  factors.reserve(scales.size());
  for (const float scale : scales) factors.push_back(1 / scale);
  std::vector<double> errors(scales.size());
  SumMantissaErrors(magnitudes_.data(), size_, factors, bits, errors.data());
  for (size_t i = 0; i < errors.size(); ++i) {
    errors[i] *= static_cast<double>(scales[i]) * static_cast<double>(scales[i]);
  }
  return errors;
}

}  // namespace hif8
