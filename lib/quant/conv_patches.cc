#include "lib/quant/conv_patches.h"

#include <algorithm>

namespace hif8 {
namespace {

// One spatial dimension.
struct Extent {
  int64_t in = 0, out = 0;
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t before = 0;  // padding
};

std::optional<Extent> ExtentOf(const ConvWindow& window, size_t i, int64_t in) {
  Extent extent{in, 0, window.kernel[i], window.strides[i], window.dilations[i], 0};
  const int64_t reach = (extent.kernel - 1) * extent.dilation + 1;
  if (in < 1 || extent.kernel < 1 || extent.stride < 1 || extent.dilation < 1) return std::nullopt;
  if (window.padding == ConvPadding::kGiven) {
    extent.before = window.pads[i];
    const int64_t room = in + extent.before + window.pads[i + window.kernel.size()] - reach;
    extent.out = room < 0 ? 0 : room / extent.stride + 1;
  } else {
    extent.out = (in + extent.stride - 1) / extent.stride;
    const int64_t all = std::max<int64_t>(0, (extent.out - 1) * extent.stride + reach - in);
    extent.before = window.padding == ConvPadding::kSameUpper ? all / 2 : all - all / 2;
  }
  if (extent.out < 1) return std::nullopt;
  return extent;
}

// Places in a channel that the kernel's elements meet at one output position; -1: padding.
void PlacesAt(const std::vector<Extent>& extents, size_t position, std::vector<int64_t>* places) {
  places->assign(1, 0);
  std::vector<int64_t> first(extents.size());
  for (size_t i = extents.size(); i-- > 0;) {
    const Extent& e = extents[i];
    first[i] = static_cast<int64_t>(position) % e.out * e.stride - e.before;
    position /= static_cast<size_t>(e.out);
  }
  std::vector<int64_t> next;
  for (size_t i = 0; i < extents.size(); ++i) {
    const Extent& e = extents[i];
    next.clear();
    for (const int64_t place : *places) {
      for (int64_t k = 0; k < e.kernel; ++k) {
        const int64_t at = first[i] + k * e.dilation;
        const bool inside = place >= 0 && at >= 0 && at < e.in;
        next.push_back(inside ? place * e.in + at : -1);
      }
    }
    places->swap(next);
  }
}

}  // namespace

std::optional<std::vector<float>> Patches(const ConvWindow& window, const Shape& shape,
                                          std::span<const float> x, size_t most) {
  const size_t rank = window.kernel.size();
  if (shape.size() != rank + 2 || ElementCount(shape) != x.size()) return std::nullopt;
  std::vector<Extent> extents;
  size_t positions = 1;
  size_t area = 1;
  size_t elements = 1;
  for (size_t i = 0; i < rank; ++i) {
    const std::optional<Extent> extent = ExtentOf(window, i, shape[i + 2]);
    if (!extent) return std::nullopt;
    extents.push_back(*extent);
    positions *= static_cast<size_t>(extent->out);
    area *= static_cast<size_t>(extent->in);
    elements *= static_cast<size_t>(extent->kernel);
  }
  const auto samples = static_cast<size_t>(shape[0]);
  const auto channels = static_cast<size_t>(shape[1]);
  const size_t count = std::min(positions, most);
  std::vector<float> rows(samples * count * channels * elements, 0.0F);
  std::vector<int64_t> places;
  for (size_t i = 0; i < count; ++i) {
    PlacesAt(extents, (2 * i + 1) * positions / (2 * count), &places);
    for (size_t n = 0; n < samples; ++n) {
      float* to = rows.data() + (n * count + i) * channels * elements;
      for (size_t c = 0; c < channels; ++c) {
        const float* const from = x.data() + (n * channels + c) * area;
        for (size_t k = 0; k < elements; ++k, ++to) {
          if (places[k] >= 0) *to = from[places[k]];
        }
      }
    }
  }
  return rows;
}

}  // namespace hif8
