#include "formats/mx.h"

#include "formats/fp8.h"

namespace hif8 {
namespace {

constexpr TileScales kGroupsOf32{kGroupTile, kGroupTile, ScaleEncoding::kE8M0};

}  // namespace

std::shared_ptr<const NumberFormat> MakeMxfp8Format() {
  return MakeMinifloatFormat(kE4M3, "mxfp8", "OCP MXFP8: E4M3, one power of two per 32 elements",
                             kGroupsOf32);
}

std::shared_ptr<const NumberFormat> MakeMxfp4Format() {
  return MakeMinifloatFormat(kE2M1, "mxfp4", "OCP MXFP4: E2M1, one power of two per 32 elements",
                             kGroupsOf32);
}

std::shared_ptr<const NumberFormat> MakeFp4Format() {
  return MakeMinifloatFormat(kE2M1, "fp4_e2m1", "FP4 E2M1 (OCP): up to 6, 2 significant bits");
}

}  // namespace hif8
