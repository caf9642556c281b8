// A number format given by the values of its codes: everything but the scalar reference.
#pragma once

#include <vector>

#include "formats/code_ramps.h"
#include "formats/vector_codec.h"
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
  // A format whose codes are ramps (see code_ramps.h).
  TableFormat(std::vector<float> table, Ties ties) : TableFormat(std::move(table)) {
    ramps_ = MakeCodeRamps(table_, ties);
    if (ties == Ties::kAway) {
      for (const Overflow overflow : {Overflow::kSaturate, Overflow::kInfinity}) {
        rank_tables_[static_cast<size_t>(overflow)] = MakeRankTables(ramps_, overflow);
      }
    }
  }
  // A format that overrides EncodeRun and RoundRun.
  explicit TableFormat(std::vector<float> table)
      : table_(std::move(table)), byte_tables_(MakeByteTables(table_)) {}

  virtual void EncodeRun(const EncodeJob& job) const {
    EncodeByRamps(job, ramps_, rank_tables_[static_cast<size_t>(job.overflow)]);
  }
  virtual void RoundRun(const RoundJob& job) const { RoundByRamps(job, ramps_); }

 private:
  std::vector<float> table_;
  ByteTables byte_tables_;
  CodeRamps ramps_;
  std::array<RankTables, 2> rank_tables_;  // by overflow mode, where ties go away
};

}  // namespace hif8
