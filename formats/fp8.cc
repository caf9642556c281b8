#include "formats/fp8.h"

#include "formats/storage.h"

namespace hif8 {
namespace {

constexpr std::array<TileScales, 1> kBlocks{kBlocksOf128};

FormatStorage E4M3Storage() {
  return {.dtype = DType::kF8E4M3,
          .onnx_type = "FLOAT8E4M3FN",
          .onnx_opset = 19,
          .tiles = kUsualTiles,
          .layer_format = "float-quantized"};
}

}  // namespace

std::shared_ptr<const NumberFormat> MakeFp8E4M3Format() {
  return MakeMinifloatFormat(kE4M3, "fp8_e4m3", "FP8 E4M3 (OCP, FN): up to 448, 4 significant bits",
                             E4M3Storage());
}

std::shared_ptr<const NumberFormat> MakeFp8E5M2Format() {
  FormatStorage storage = E4M3Storage();
  storage.dtype = DType::kF8E5M2;
  storage.onnx_type = "FLOAT8E5M2";
  return MakeMinifloatFormat(kE5M2, "fp8_e5m2", "FP8 E5M2 (OCP): up to 57344, 3 significant bits",
                             storage);
}

std::shared_ptr<const NumberFormat> MakeFp8E4M3BlockFormat() {
  FormatStorage storage = E4M3Storage();
  storage.onnx_opset = 0;
  storage.tiles = kBlocks;
  storage.tiled = true;
  return MakeMinifloatFormat(
      kE4M3, "fp8_e4m3_block",
      "FP8 E4M3, one fp32 scale per 128x128 of a weight and 1x128 of an activation", storage);
}

}  // namespace hif8
