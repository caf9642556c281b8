#include "lib/model/safetensors/source_quantization.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace hif8 {
namespace {

constexpr char kHint[] =
    "give the checkpoint that it was made from, in BF16, FP16 or FP32, or in FP8, INT8, MXFP4, "
    "NVFP4";

// Formats of compressed-tensors whose tensors say what they are.
constexpr std::array<std::string_view, 8> kFormats = {
    "float-quantized", "int-quantized",        "naive-quantized",      "mxfp8-quantized",
    "pack-quantized",  "mxfp4-pack-quantized", "nvfp4-pack-quantized", "mixed-precision"};
constexpr std::array<std::string_view, 5> kMethods = {"fp8", "fbgemm_fp8", "mxfp4", "mxfp8",
                                                      "modelopt"};

template <size_t N>
bool IsOneOf(const std::array<std::string_view, N>& known, std::string_view word) {
  return std::find(known.begin(), known.end(), word) != known.end();
}

void CheckMethod(const ModelConfig& quantization) {
  const std::vector<std::string> keys = quantization.Keys();
  const bool null = std::ranges::find(keys, "quant_method") != keys.end();
  if (keys.empty() || (null && !quantization.Has("quant_method"))) return;
  const std::string method = quantization.String("quant_method", "");
  const std::string format = quantization.String("format", "");
  if (method == "compressed-tensors") {
    const std::string number_format = quantization.String("number_format", "");
    if (!number_format.empty()) throw AlreadyQuantized(number_format, quantization.where());
    if (IsOneOf(kFormats, format)) return;
    throw AlreadyQuantized(method + ", format '" + format + "'", quantization.where());
  }
  if (!IsOneOf(kMethods, method)) {
    throw AlreadyQuantized(method.empty() ? "quantization_config without quant_method" : method,
                           quantization.where());
  }
  if (const std::string fmt = quantization.String("fmt", "e4m3"); fmt != "e4m3") {
    throw AlreadyQuantized("fp8 of format '" + fmt + "'", quantization.where());
  }
}

// What a tensor's name says about how the checkpoint was quantized; empty: nothing.
std::string QuantizedBy(std::string_view name) {
  if (name.ends_with(".qweight") || name.ends_with(".qzeros") || name.ends_with(".g_idx")) {
    return "GPTQ or AWQ";
  }
  if (name.ends_with(".SCB") || name.find(".quant_state.") != std::string_view::npos) {
    return "bitsandbytes";
  }
  return "";
}

bool IsCodeType(DType dtype) {
  return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2 || dtype == DType::kI8 ||
         dtype == DType::kU8 || dtype == DType::kI32;
}

}  // namespace

Error AlreadyQuantized(const std::string& how, const std::string& where) {
  return ModelError("the checkpoint is already quantized: " + how, kHint, where);
}

void CheckSourceQuantization(const ModelConfig& config, const ShardList& shards) {
  CheckMethod(config.Object("quantization_config"));
  for (const auto& shard : shards.shards) {
    for (const SafetensorsEntry& entry : shard->tensors()) {
      const std::string how = QuantizedBy(entry.name);
      if (how.empty()) continue;
      throw AlreadyQuantized(how + ", tensor '" + entry.name + "'", shard->path().string());
    }
  }
}

bool MayHoldCodes(const ShardList& shards) {
  return std::any_of(shards.shards.begin(), shards.shards.end(), [](const auto& shard) {
    return std::any_of(shard->tensors().begin(), shard->tensors().end(),
                       [](const SafetensorsEntry& entry) {
                         return entry.shape.size() > 1 && IsCodeType(entry.dtype);
                       });
  });
}

}  // namespace hif8
