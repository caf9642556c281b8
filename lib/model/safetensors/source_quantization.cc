#include "lib/model/safetensors/source_quantization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/core/error.h"

namespace hif8 {
namespace {

constexpr char kHint[] = "give the checkpoint that it was made from, in BF16, FP16, FP32 or FP8";

Error AlreadyQuantized(const std::string& how, const std::string& where) {
  return ModelError("the checkpoint is already quantized: " + how, kHint, where);
}

void CheckMethod(const ModelConfig& quantization) {
  if (quantization.empty()) return;
  const std::string method = quantization.String("quant_method", "");
  const std::string format = quantization.String("format", "");
  if (method == "compressed-tensors") {
    const std::string number_format = quantization.String("number_format", "");
    if (!number_format.empty()) throw AlreadyQuantized(number_format, quantization.where());
    if (format == "float-quantized") return;
    throw AlreadyQuantized(method + ", format '" + format + "'", quantization.where());
  }
  if (method != "fp8") {
    throw AlreadyQuantized(method.empty() ? "quantization_config without quant_method" : method,
                           quantization.where());
  }
  if (const std::string fmt = quantization.String("fmt", "e4m3"); fmt != "e4m3") {
    throw AlreadyQuantized("fp8 of format '" + fmt + "'", quantization.where());
  }
}

// What a tensor's name or type says about how the checkpoint was quantized; empty: nothing.
std::string QuantizedBy(const SafetensorsEntry& entry) {
  const std::string_view name = entry.name;
  if (name.ends_with(".qweight") || name.ends_with(".qzeros") || name.ends_with(".g_idx")) {
    return "GPTQ or AWQ";
  }
  if (name.ends_with(".weight_packed")) return "packed integers or 4-bit floats";
  if (name.ends_with("_proj_blocks") && entry.dtype == DType::kU8) return "MXFP4 blocks";
  if (name.ends_with(".SCB") || name.find(".quant_state.") != std::string_view::npos) {
    return "bitsandbytes";
  }
  if (name.ends_with(".weight") && entry.shape.size() == 2) {
    const DType t = entry.dtype;
    if (t == DType::kI8 || t == DType::kU8 || t == DType::kI32 || t == DType::kF8E5M2) {
      return std::string(DTypeName(t)) + " weights";
    }
  }
  return "";
}

const std::array<float, 256>& E4M3Table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> t{};
    for (int code = 0; code < 256; ++code) {
      const int exponent = code >> 3 & 15;
      const int fraction = code & 7;
      float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                  : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
      if ((code & 127) == 127) value = std::numeric_limits<float>::quiet_NaN();
      t[static_cast<size_t>(code)] = code < 128 ? value : -value;
    }
    return t;
  }();
  return table;
}

}  // namespace

Fp8Blocks CheckSourceQuantization(const ModelConfig& config, const ShardList& shards) {
  const ModelConfig quantization = config.Object("quantization_config");
  CheckMethod(quantization);
  for (const auto& shard : shards.shards) {
    for (const SafetensorsEntry& entry : shard->tensors()) {
      const std::string how = QuantizedBy(entry);
      if (how.empty()) continue;
      throw AlreadyQuantized(how + ", tensor '" + entry.name + "'", shard->path().string());
    }
  }
  const Fp8Blocks usual;
  const auto size = quantization.Integers("weight_block_size", {usual.rows, usual.columns});
  if (size.size() != 2 || size[0] < 1 || size[1] < 1) {
    throw ModelError("'quantization_config.weight_block_size': expected two positive integers",
                     "correct the value, such as [128, 128]", config.where());
  }
  return {size[0], size[1]};
}

Fp8Weight::Fp8Weight(const TensorView& codes, const TensorView& scale, const Fp8Blocks& blocks,
                     const std::string& name, const std::string& where)
    : codes_(reinterpret_cast<const uint8_t*>(codes.data)),
      rows_(codes.shape[0]),
      columns_(codes.shape[1]),
      block_rows_(blocks.rows),
      block_columns_(blocks.columns) {
  const auto count = [](int64_t n, int64_t block) { return n / block + (n % block != 0 ? 1 : 0); };
  const int64_t whole_row = std::max<int64_t>(columns_, 1);
  if (scale.shape == Shape{rows_, 1} || scale.shape == Shape{rows_}) {
    block_rows_ = 1;
    block_columns_ = whole_row;
  } else if (scale.size() == 1) {
    block_rows_ = std::max<int64_t>(rows_, 1);
    block_columns_ = whole_row;
  }
  const Shape expected = {count(rows_, block_rows_), count(columns_, block_columns_)};
  scale_columns_ = expected[1];
  const bool fits = static_cast<int64_t>(scale.size()) == expected[0] * expected[1] &&
                    (scale.shape.size() != 2 || scale.shape == expected);
  if (!IsFloat(scale.dtype) || !fits) {
    throw ModelError("scales of FP8 tensor '" + name + "' of shape " + ShapeText(codes.shape) +
                         ": expected one, one per row or " + ShapeText(expected) + ", found " +
                         std::string(DTypeName(scale.dtype)) + " " + ShapeText(scale.shape),
                     "correct quantization_config.weight_block_size, or get the checkpoint again",
                     where);
  }
  scales_.resize(scale.size());
  ConvertToFloat(scale.dtype, scale.data, scale.size(), scales_.data());
}

void Fp8Weight::Decode(size_t begin, size_t n, float* values) const {
  if (n == 0) return;
  const std::array<float, 256>& table = E4M3Table();
  const uint8_t* codes = codes_ + begin;
  auto row = static_cast<int64_t>(begin) / columns_;
  auto column = static_cast<int64_t>(begin) % columns_;
  while (n > 0) {
    const int64_t block = column / block_columns_;
    const float scale = scales_[static_cast<size_t>(row / block_rows_ * scale_columns_ + block)];
    const int64_t end = std::min(columns_, (block + 1) * block_columns_);
    const size_t run = std::min(n, static_cast<size_t>(end - column));
    for (size_t i = 0; i < run; ++i) values[i] = table[codes[i]] * scale;
    codes += run;
    values += run;
    n -= run;
    column = end == columns_ ? 0 : end;
    row += end == columns_ ? 1 : 0;
  }
}

}  // namespace hif8
