#include "formats/int8.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "formats/storage.h"
#include "formats/table_format.h"
#include "formats/vector_codec.h"

namespace hif8 {
namespace {

// Two's complement, of which `least` to `most` are written.
struct Integers {
  std::string_view name, description;
  int bits;
  float least, most;
  FormatStorage storage;
};
// Not written for the standard operator: ONNX Runtime takes INT8 weights of a product for an order
// to round activations to eight bits as well.
constexpr Integers kInt8{"int8",
                         "Symmetric integers, -127 to 127",
                         8,
                         -127,
                         127,
                         {.dtype = DType::kI8,
                          .onnx_type = "INT8",
                          .tiles = kUsualTiles,
                          .operand_type = "int",
                          .layer_format = "int-quantized"}};
constexpr Integers kInt4{"int4",
                         "Integers of four bits, -8 to 7",
                         4,
                         -8,
                         7,
                         {.dtype = DType::kI32,
                          .onnx_type = "INT4",
                          .operand_type = "int",
                          .layer_format = "pack-quantized"}};

std::vector<float> TableOf(const Integers& integers) {
  const int count = 1 << integers.bits;
  std::vector<float> values(static_cast<size_t>(count));
  for (int code = 0; code < count; ++code) {
    values[static_cast<size_t>(code)] = static_cast<float>(code < count / 2 ? code : code - count);
  }
  return values;
}

class IntegerFormat final : public TableFormat {
 public:
  explicit IntegerFormat(const Integers& integers)
      : TableFormat(TableOf(integers)), integers_(integers) {}

  std::string_view name() const override { return integers_.name; }
  std::string_view description() const override { return integers_.description; }
  int bits() const override { return integers_.bits; }
  const FormatStorage& storage() const override { return integers_.storage; }
  // Beyond the range of either sign.
  float OverflowThreshold() const override {
    return std::max(-integers_.least, integers_.most) + 0.5F;
  }
  float DefaultTarget() const override { return integers_.most; }

  uint8_t EncodeOne(float x, Overflow) const override {
    if (std::isnan(x)) return 0;
    const float clamped = std::clamp(x, integers_.least, integers_.most);
    const float below = std::floor(clamped);
    const float rest = clamped - below;
    const int whole = static_cast<int>(below);
    const int code = whole + (rest > 0.5F || (rest == 0.5F && whole % 2 != 0) ? 1 : 0);
    return static_cast<uint8_t>(code & ((1 << integers_.bits) - 1));
  }

 protected:
  void EncodeRun(const EncodeJob& job) const override {
    if (integers_.bits == kInt8.bits) return EncodeIntegers(job);
    EncodeReference(job, 0, job.count);
  }
  void RoundRun(const RoundJob& job) const override {
    if (integers_.bits == kInt8.bits) return RoundIntegers(job);
    RoundReference(job, 0, job.count);
  }

 private:
  Integers integers_;
};

}  // namespace

std::shared_ptr<const NumberFormat> MakeInt8Format() {
  return std::make_shared<IntegerFormat>(kInt8);
}
std::shared_ptr<const NumberFormat> MakeInt4Format() {
  return std::make_shared<IntegerFormat>(kInt4);
}

}  // namespace hif8
