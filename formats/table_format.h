// A number format given by the values of its codes: everything but the scalar reference.
#pragma once

#include "formats/code_lines.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

class TableFormat : public NumberFormat {
 public:
  std::span<const float> DecodeTable() const override { return table_; }
  void Encode(DType dtype, const std::byte* x, ScaleOperand scale, std::span<uint8_t> codes,
              Overflow overflow) const override;
  void Decode(std::span<const uint8_t> codes, ScaleOperand scale,
              std::span<float> y) const override;
  void QuantizeDequantize(std::span<const float> x, ScaleOperand scale,
                          std::span<float> y) const override;

 protected:
  // `table` must outlive the format.
  TableFormat(std::span<const float> table, Ties ties)
      : table_(table), lines_(MakeCodeLines(table, ties)) {}

 private:
  std::span<const float> table_;
  CodeLines lines_;
};

}  // namespace hif8
