// Names of a graph that holds one layer: what it reads, its stored weight, what it gives.
#pragma once

namespace hif8 {

inline constexpr char kLayerInput[] = "x";
inline constexpr char kLayerWeight[] = "w";
inline constexpr char kLayerResult[] = "y";

}  // namespace hif8
