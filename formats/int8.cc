#include "formats/int8.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "formats/table_format.h"
#include "formats/vector_codec.h"

namespace hif8 {
namespace {

constexpr float kLargest = 127;

std::vector<float> Table() {
  std::vector<float> values(256);
  for (size_t code = 0; code < values.size(); ++code) {
    values[code] = static_cast<int8_t>(code);
  }
  return values;
}

class Int8Format final : public TableFormat {
 public:
  Int8Format() : TableFormat(Table()) {}

  std::string_view name() const override { return "int8"; }
  std::string_view description() const override { return "Symmetric integers, -127 to 127"; }
  float OverflowThreshold() const override { return 127.5F; }
  float DefaultTarget() const override { return kLargest; }

  uint8_t EncodeOne(float x, Overflow) const override {
    if (std::isnan(x)) return 0;
    const float clamped = std::clamp(x, -kLargest, kLargest);
    const float below = std::floor(clamped);
    const float rest = clamped - below;
    const int whole = static_cast<int>(below);
    return static_cast<uint8_t>(whole + (rest > 0.5F || (rest == 0.5F && whole % 2 != 0) ? 1 : 0));
  }

 protected:
  void EncodeRun(const EncodeJob& job) const override { EncodeIntegers(job); }
  void RoundRun(const RoundJob& job) const override { RoundIntegers(job); }
};

}  // namespace

std::shared_ptr<const NumberFormat> MakeInt8Format() { return std::make_shared<Int8Format>(); }

}  // namespace hif8
