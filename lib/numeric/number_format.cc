#include "lib/numeric/number_format.h"

#include <cmath>
#include <limits>

namespace hif8 {

const FormatStorage& NumberFormat::storage() const {
  static const FormatStorage kPlain;
  return kPlain;
}

const TileScales* NumberFormat::TilesFor(Granularity granularity) const {
  for (const TileScales& tiles : storage().tiles) {
    if (tiles.granularity == granularity) return &tiles;
  }
  return OwnTiles();
}

float NumberFormat::MaxFinite() const {
  float most = 0;
  for (const float value : DecodeTable()) {
    if (std::isfinite(value) && value > most) most = value;
  }
  return most;
}

float NumberFormat::MinPositive() const {
  float least = std::numeric_limits<float>::infinity();
  for (const float value : DecodeTable()) {
    if (value > 0 && value < least) least = value;
  }
  return least;
}

}  // namespace hif8
