// Number formats for the tests of this folder: a sorted list of values and rounding to the nearest,
// by plain search. Also the references that rules are compared with.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "lib/numeric/number_format.h"
#include "lib/numeric/tensor_stats.h"

namespace hif8 {

class PlainFormat : public NumberFormat {
 public:
  // `magnitudes`: the positive values, rising; at most 127.
  PlainFormat(std::string name, std::vector<float> magnitudes, float target)
      : name_(std::move(name)), target_(target), table_(256) {
    for (size_t i = 0; i < magnitudes.size(); ++i) {
      table_[i + 1] = magnitudes[i];
      table_[i + 129] = -magnitudes[i];
    }
    table_[128] = std::numeric_limits<float>::quiet_NaN();
    for (size_t i = magnitudes.size() + 1; i < 128; ++i) table_[i] = table_[i + 128] = table_[128];
    magnitudes.insert(magnitudes.begin(), 0.0F);
    magnitudes_ = std::move(magnitudes);
  }

  std::string_view name() const override { return name_; }
  std::string_view description() const override { return "for tests"; }
  std::span<const float> DecodeTable() const override { return table_; }
  float OverflowThreshold() const override { return magnitudes_.back() * 1.1F; }
  float DefaultTarget() const override { return target_; }

  uint8_t EncodeOne(float x, Overflow /*overflow*/) const override {
    if (std::isnan(x)) return 128;
    const auto rank = static_cast<uint8_t>(Rank(std::abs(static_cast<double>(x))));
    return x < 0 && rank > 0 ? rank + 128 : rank;
  }
  void Encode(DType dtype, const std::byte* x, ScaleOperand scale, std::span<uint8_t> codes,
              Overflow overflow) const override {
    for (size_t i = 0; i < codes.size(); ++i) {
      float value;
      ConvertToFloat(dtype, x + i * DTypeSize(dtype), 1, &value);
      codes[i] = EncodeOne(value / scale.values[scale.per_value ? i : 0], overflow);
    }
  }
  void Decode(std::span<const uint8_t> codes, ScaleOperand scale,
              std::span<float> y) const override {
    for (size_t i = 0; i < codes.size(); ++i) {
      y[i] = table_[codes[i]] * scale.values[scale.per_value ? i : 0];
    }
  }
  void QuantizeDequantize(std::span<const float> x, ScaleOperand scale,
                          std::span<float> y) const override {
    for (size_t i = 0; i < x.size(); ++i) {
      const float s = scale.values[scale.per_value ? i : 0];
      y[i] = std::isfinite(x[i]) ? table_[EncodeOne(x[i] / s, Overflow::kSaturate)] * s : x[i];
    }
  }

 private:
  size_t Rank(double magnitude) const {
    const auto above = std::upper_bound(magnitudes_.begin(), magnitudes_.end(), magnitude);
    if (above == magnitudes_.end()) return magnitudes_.size() - 1;
    const auto rank = static_cast<size_t>(above - magnitudes_.begin());
    const double middle = (static_cast<double>(magnitudes_[rank - 1]) + *above) / 2;
    return magnitude < middle ? rank - 1 : rank;
  }

  std::string name_;
  float target_;
  std::vector<float> table_;
  std::vector<float> magnitudes_;  // zero included
};

// 127 equal steps, and a floating format of 4 exponent bits and 3 fraction bits.
inline PlainFormat Steps() {
  std::vector<float> values;
  for (int i = 1; i <= 127; ++i) values.push_back(static_cast<float>(i));
  return {"steps", values, 127};
}
inline PlainFormat Floating() {
  std::vector<float> values;
  for (int code = 1; code <= 126; ++code) {
    const int e = code / 8;
    values.push_back(
        std::ldexp(static_cast<float>(code % 8 + (e > 0 ? 8 : 0)), std::max(e, 1) - 10));
  }
  return {"floating", values, 448};
}

// The squared error by a search of the decode table for every value, in double.
inline double PlainError(std::span<const float> x, const NumberFormat& format, double scale) {
  std::vector<double> values;
  for (const float v : format.DecodeTable()) {
    if (std::isfinite(v)) values.push_back(v);
  }
  std::sort(values.begin(), values.end());
  double error = 0;
  for (const float v : x) {
    const double scaled = v / scale;
    const auto above = std::lower_bound(values.begin(), values.end(), scaled);
    double best = std::numeric_limits<double>::infinity();
    if (above != values.end()) best = std::abs(*above - scaled);
    if (above != values.begin()) best = std::min(best, std::abs(*(above - 1) - scaled));
    error += best * best * scale * scale;
  }
  return error;
}

enum class Shape1D { kNormal, kLaplace, kHeavyTail, kOutliers, kHalfZero };

inline std::vector<float> Draw(Shape1D shape, size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::exponential_distribution<double> exponential;
  std::student_t_distribution<double> student(4);
  std::vector<float> values(n);
  for (float& v : values) {
    double x = normal(random);
    if (shape == Shape1D::kLaplace) x = std::copysign(exponential(random), x);
    if (shape == Shape1D::kHeavyTail) x = student(random);
    if (shape == Shape1D::kOutliers && random() % 1000 == 0) x *= 60;
    if (shape == Shape1D::kHalfZero) x = std::max(x, 0.0);
    v = static_cast<float>(0.02 * x);
  }
  return values;
}

inline void RoundToBf16(std::vector<float>* values) {
  for (float& v : *values) {
    v = std::bit_cast<float>((std::bit_cast<uint32_t>(v) + 0x8000U) & 0xFFFF0000U);
  }
}

inline TensorStats Record(std::span<const float> values, size_t samples = 1) {
  TensorStats stats;
  stats.Add({DType::kF32,
             {static_cast<int64_t>(values.size())},
             reinterpret_cast<const std::byte*>(values.data())},
            samples);
  return stats;
}

}  // namespace hif8
