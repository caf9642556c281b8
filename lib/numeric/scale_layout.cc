#include "lib/numeric/scale_layout.h"

#include <algorithm>
#include <cstdint>

#include "lib/core/parallel.h"

namespace hif8 {
namespace {

constexpr size_t kUnit = size_t{1} << 16;  // values that make a unit of work worth a task
constexpr size_t kTileRows = 16;
constexpr size_t kMaxGathered = 64;  // channels gathered at a time where they interleave

std::span<const float> Run(const TensorView& tensor, size_t begin, size_t n,
                           std::vector<float>* buffer) {
  const TensorView part{
      tensor.dtype, {static_cast<int64_t>(n)}, tensor.data + begin * DTypeSize(tensor.dtype)};
  return AsFloats(part, buffer);
}

// Channels that are one run of memory each.
void VisitContiguous(const TensorView& tensor, const ChannelLayout& layout,
                     const std::function<void(size_t, std::span<const float>)>& visit) {
  const size_t size = layout.channel_size();
  const size_t count = layout.scale_count();
  const size_t per_task = std::max<size_t>(1, kUnit / std::max<size_t>(1, size));
  ParallelFor((count + per_task - 1) / per_task, [&](size_t task) {
    std::vector<float> buffer;
    const size_t end = std::min(count, (task + 1) * per_task);
    for (size_t c = task * per_task; c < end; ++c) visit(c, Run(tensor, c * size, size, &buffer));
  });
}

// Transposes `channels` columns, beginning at element `first`, of `outer` rows that are `stride`
// elements apart.
void GatherColumns(const TensorView& tensor, size_t first, size_t outer, size_t stride,
                   size_t channels, float* out) {
  std::vector<float> tile(kTileRows * channels);
  const size_t element = DTypeSize(tensor.dtype);
  for (size_t row = 0; row < outer; row += kTileRows) {
    const size_t rows = std::min(kTileRows, outer - row);
    for (size_t r = 0; r < rows; ++r) {
      ConvertToFloat(tensor.dtype, tensor.data + (first + (row + r) * stride) * element, channels,
                     tile.data() + r * channels);
    }
    for (size_t c = 0; c < channels; ++c) {
      float* dst = out + c * outer + row;
      for (size_t r = 0; r < rows; ++r) dst[r] = tile[r * channels + c];
    }
  }
}

void GatherRuns(const TensorView& tensor, size_t first, const ChannelLayout& layout,
                size_t channels, float* out) {
  const size_t element = DTypeSize(tensor.dtype);
  const size_t stride = layout.channels * layout.inner;
  for (size_t o = 0; o < layout.outer; ++o) {
    for (size_t c = 0; c < channels; ++c) {
      ConvertToFloat(tensor.dtype, tensor.data + (first + o * stride + c * layout.inner) * element,
                     layout.inner, out + (c * layout.outer + o) * layout.inner);
    }
  }
}

}  // namespace

std::string_view GranularityName(Granularity granularity) {
  switch (granularity) {
    case Granularity::kTensor:
      return "tensor";
    case Granularity::kChannel:
      return "channel";
    case Granularity::kToken:
      return "token";
    case Granularity::kBlock:
      return "block";
    case Granularity::kGroup:
      return "group";
  }
  return "";
}

ChannelLayout ChannelLayout::Axis(const Shape& shape, size_t axis, size_t batch_dims) {
  ChannelLayout layout;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto dim = static_cast<size_t>(shape[i]);
    if (i == axis) {
      layout.channels = dim;
    } else if (i < batch_dims) {
      layout.batch *= dim;
    } else if (i < axis) {
      layout.outer *= dim;
    } else {
      layout.inner *= dim;
    }
  }
  return layout;
}

void ForEachChannel(const TensorView& tensor, const ChannelLayout& layout,
                    const std::function<void(size_t, std::span<const float>)>& visit) {
  if (layout.outer == 1 || layout.channels == 1) {
    VisitContiguous(tensor, layout, visit);
    return;
  }
  // A block of channels is read row by row and kept transposed in a buffer of about the L2 cache's
  // size; at least 16 channels, so that a cache line of the tensor is read at most a few times.
  const size_t size = layout.channel_size();
  const size_t gathered =
      std::min(layout.channels,
               std::clamp<size_t>((size_t{1} << 18) / std::max<size_t>(1, size), 16, kMaxGathered));
  const size_t blocks = (layout.channels + gathered - 1) / gathered;
  ParallelFor(layout.batch * blocks, [&](size_t task) {
    const size_t batch = task / blocks;
    const size_t begin = task % blocks * gathered;
    const size_t channels = std::min(gathered, layout.channels - begin);
    std::vector<float> buffer(channels * size);
    const size_t stride = layout.channels * layout.inner;
    const size_t first = batch * layout.outer * stride + begin * layout.inner;
    if (layout.inner == 1) {
      GatherColumns(tensor, first, layout.outer, stride, channels, buffer.data());
    } else {
      GatherRuns(tensor, first, layout, channels, buffer.data());
    }
    for (size_t c = 0; c < channels; ++c) {
      visit(batch * layout.channels + begin + c, std::span(buffer).subspan(c * size, size));
    }
  });
}

}  // namespace hif8
