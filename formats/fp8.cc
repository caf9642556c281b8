#include "formats/fp8.h"

namespace hif8 {

std::shared_ptr<const NumberFormat> MakeFp8E4M3Format() {
  return MakeMinifloatFormat(kE4M3, "fp8_e4m3",
                             "FP8 E4M3 (OCP, FN): up to 448, 4 significant bits");
}

std::shared_ptr<const NumberFormat> MakeFp8E5M2Format() {
  return MakeMinifloatFormat(kE5M2, "fp8_e5m2", "FP8 E5M2 (OCP): up to 57344, 3 significant bits");
}

std::shared_ptr<const NumberFormat> MakeFp8E4M3BlockFormat() {
  return MakeMinifloatFormat(
      kE4M3, "fp8_e4m3_block",
      "FP8 E4M3, one fp32 scale per 128x128 of a weight and 1x128 of an activation",
      TileScales{kWeightBlock, kActivationBlock, ScaleEncoding::kFp32});
}

}  // namespace hif8
