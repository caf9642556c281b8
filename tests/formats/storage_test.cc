// What every format says about how files hold it.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "formats/builtin.h"

namespace hif8 {
namespace {

TEST(Storage, TilesAndScalesFitTogether) {
  for (const std::string& name : StoredFormats().names()) {
    SCOPED_TRACE(name);
    const NumberFormat& format = StoredFormats().Get(name);
    const FormatStorage& storage = format.storage();
    EXPECT_EQ(format.packed(), format.bits() == 4);
    EXPECT_TRUE(storage.operand_type == "float" || storage.operand_type == "int");
    EXPECT_EQ(storage.scale_format != nullptr, storage.scale_encoding == ScaleEncoding::kCodes);
    if (storage.scale_format != nullptr) {
      EXPECT_EQ(DTypeBits(storage.scale_format->storage().dtype), 8u);
    }
    // Scales that are not any fp32 belong to the format, and so do their tiles.
    EXPECT_TRUE(storage.tiled || !format.ScalesFollowAmax());
    EXPECT_EQ(format.OwnTiles() != nullptr, storage.tiled);
    std::set<Granularity> granularities;
    for (const TileScales& tiles : storage.tiles) {
      EXPECT_TRUE(granularities.insert(tiles.granularity).second);
      EXPECT_EQ(tiles.granularity == Granularity::kGroup, tiles.weight.rows == 1);
      EXPECT_EQ(tiles.activation.rows, 1u);
      EXPECT_EQ(format.TilesFor(tiles.granularity), &tiles);
    }
    EXPECT_EQ(format.TilesFor(Granularity::kTensor), format.OwnTiles());
    EXPECT_TRUE(storage.onnx_opset == 0 || !storage.onnx_type.empty());
  }
}

// Types of codes and scales tell formats apart, but for what only names and tiles do.
TEST(Storage, NoTwoFormatsAreReadAlike) {
  std::set<std::tuple<DType, bool, ScaleEncoding>> seen;
  for (const std::string& name : BuiltinFormats().names()) {
    const NumberFormat& format = BuiltinFormats().Get(name);
    const FormatStorage& storage = format.storage();
    const bool first = seen.emplace(storage.dtype, format.packed(), storage.scale_encoding).second;
    EXPECT_TRUE(first || name == "fp8_e4m3_block") << name;
  }
}

}  // namespace
}  // namespace hif8
