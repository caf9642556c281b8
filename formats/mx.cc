#include "formats/mx.h"

#include "formats/fp8.h"
#include "formats/storage.h"

namespace hif8 {
namespace {

constexpr std::array<TileScales, 2> kMxfp8Tiles{kGroupsOf32,
                                                TileScales{Granularity::kBlock, {32, 32}, {1, 32}}};
constexpr std::array<TileScales, 1> kMxfp4Tiles{kGroupsOf32};

}  // namespace

std::shared_ptr<const NumberFormat> MakeMxfp8Format() {
  return MakeMinifloatFormat(kE4M3, "mxfp8", "OCP MXFP8: E4M3, one power of two per 32 elements",
                             {.dtype = DType::kF8E4M3,
                              .onnx_type = "FLOAT8E4M3FN",
                              .scale_encoding = ScaleEncoding::kE8M0,
                              .tiles = kMxfp8Tiles,
                              .tiled = true,
                              .layer_format = "mxfp8-quantized",
                              .scale_dtype = "torch.uint8"});
}

std::shared_ptr<const NumberFormat> MakeMxfp4Format() {
  return MakeMinifloatFormat(kE2M1, "mxfp4", "OCP MXFP4: E2M1, one power of two per 32 elements",
                             {.onnx_type = "FLOAT4E2M1",
                              .scale_encoding = ScaleEncoding::kE8M0,
                              .tiles = kMxfp4Tiles,
                              .tiled = true,
                              .layer_format = "mxfp4-pack-quantized",
                              .scale_dtype = "torch.uint8"});
}

std::shared_ptr<const NumberFormat> MakeFp4Format() {
  return MakeMinifloatFormat(kE2M1, "fp4_e2m1", "FP4 E2M1 (OCP): up to 6, 2 significant bits",
                             {.dtype = DType::kOpaque, .onnx_type = "FLOAT4E2M1"});
}

}  // namespace hif8
