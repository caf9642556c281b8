// Which elements of a tensor share a scale.
#pragma once

#include <cstddef>

#include "lib/core/enum_names.h"
#include "lib/core/tensor.h"

namespace hif8 {

enum class Granularity { kTensor, kChannel, kToken, kBlock, kGroup };
template <>
inline constexpr EnumTable<Granularity, 5> kEnumNames<Granularity>{
    {{Granularity::kTensor, "tensor"},
     {Granularity::kChannel, "channel"},
     {Granularity::kToken, "token"},
     {Granularity::kBlock, "block"},
     {Granularity::kGroup, "group"}}};

// A dense tensor seen as [batch, outer, channels, inner], row-major; element (b, o, c, i) belongs
// to the scale b * channels + c. Examples:
//   Linear / Conv weight [C, ...]: batch 1, outer 1, channels C, inner = the rest
//   MatMul weight [B, K, N]:       batch B, outer K, channels N, inner 1
//   LSTM weight [D, 4H, I]:        batch 1, outer 1, channels D * 4H, inner I
//   per tensor:                    batch 1, outer 1, channels 1, inner = all
struct ChannelLayout {
  size_t batch = 1;
  size_t outer = 1;
  size_t channels = 1;
  size_t inner = 1;

  size_t scale_count() const { return batch * channels; }
  size_t channel_size() const { return outer * inner; }
  size_t size() const { return batch * outer * channels * inner; }

  static ChannelLayout PerTensor(size_t size) { return {1, 1, 1, size}; }
  // Scale axis `axis` of `shape`; all dimensions before `batch_dims` are batch.
  static ChannelLayout Axis(const Shape& shape, size_t axis, size_t batch_dims = 0);
};

}  // namespace hif8
