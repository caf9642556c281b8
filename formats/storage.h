// Tiles of scales, and descriptions of storage that several formats share.
#pragma once

#include <array>

#include "lib/numeric/number_format.h"

namespace hif8 {

// Groups of weights and activations (OCP MX).
inline constexpr TileScales kGroupsOf32{Granularity::kGroup, {1, 32}, {1, 32}};
// Blocks of weights, groups of activations (DeepSeek-V3).
inline constexpr TileScales kBlocksOf128{Granularity::kBlock, {128, 128}, {1, 128}};
// Tiles that recipes can ask for of formats whose scales do not always belong to tiles.
inline constexpr std::array<TileScales, 2> kUsualTiles{kGroupsOf32, kBlocksOf128};

}  // namespace hif8
