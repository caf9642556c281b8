#include "formats/nvfp4.h"

#include <array>

#include "formats/fp8.h"
#include "formats/mx.h"

namespace hif8 {
namespace {

constexpr std::array<TileScales, 1> kGroupsOf16{{{Granularity::kGroup, {1, 16}, {1, 16}}}};

}  // namespace

std::shared_ptr<const NumberFormat> MakeNvfp4Format() {
  static const std::shared_ptr<const NumberFormat> scales = MakeFp8E4M3Format();
  return MakeMinifloatFormat(kE2M1, "nvfp4",
                             "NVFP4: E2M1, one E4M3 scale per 16 elements, one fp32 per tensor",
                             {.onnx_type = "FLOAT4E2M1",
                              .scale_encoding = ScaleEncoding::kCodes,
                              .scale_format = scales.get(),
                              .tiles = kGroupsOf16,
                              .tiled = true,
                              .layer_format = "nvfp4-pack-quantized"});
}

}  // namespace hif8
