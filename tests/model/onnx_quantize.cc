#include "tests/model/onnx_quantize.h"

#include <algorithm>
#include <cmath>

#include "formats/builtin.h"
#include "tests/model/onnx_builder.h"
#include "tests/model/onnx_stock.h"

namespace hif8 {
namespace {

// The scale index of element i.
size_t ScaleIndex(const TileLayout& layout, size_t i) {
  size_t index = 0, weight = 1;
  for (size_t d = layout.shape.size(); d-- > 0;) {
    const auto size = static_cast<size_t>(layout.shape[d]);
    const auto edge = static_cast<size_t>(layout.tile[d]);
    index += i % size / edge * weight;
    weight *= (size + edge - 1) / edge;
    i /= size;
  }
  return index;
}

}  // namespace

ReferenceQuantizer::ReferenceQuantizer(const OnnxModel& model)
    : model_(model), grid_(GoldenValues()) {}

EncodedWeight ReferenceQuantizer::Encode(int weight) const {
  const std::vector<float> values = WeightValues(model_, weight);
  EncodedWeight encoded;
  encoded.format = "hif8";
  encoded.layout = model_.weights()[static_cast<size_t>(weight)].channels;
  std::vector<float> amax(encoded.layout.scale_count(), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    float& most = amax[ScaleIndex(encoded.layout, i)];
    most = std::max(most, std::fabs(values[i]));
  }
  for (const float most : amax) encoded.scales.push_back(most > 0 ? most / 16 : 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const float rounded =
        GoldenRound(values[i] / encoded.scales[ScaleIndex(encoded.layout, i)], grid_);
    const auto code = std::find(grid_.begin(), grid_.end(), rounded);
    encoded.codes.push_back(static_cast<uint8_t>(code - grid_.begin()));
  }
  return encoded;
}

std::vector<float> ReferenceQuantizer::Decoded(const EncodedWeight& encoded) const {
  std::vector<float> values;
  for (size_t i = 0; i < encoded.codes.size(); ++i) {
    values.push_back(grid_[encoded.codes[i]] * encoded.scales[ScaleIndex(encoded.layout, i)]);
  }
  return values;
}

std::vector<float> ReferenceQuantizer::Round(std::vector<float> x, float scale) const {
  for (float& value : x) value = GoldenRound(value / scale, grid_) * scale;
  return x;
}

OnnxWritePlan ReferenceQuantizer::PlanAll() const {
  OnnxWritePlan plan;
  for (const Layer& layer : model_.layers()) plan.quantized.push_back(layer.unsupported.empty());
  for (size_t i = 0; i < model_.activations().size(); ++i) {
    plan.activations[static_cast<int>(i)] = {&BuiltinFormats().Get("hif8"), 1.0F / 16};
  }
  plan.encode = [copy = *this](int weight) { return copy.Encode(weight); };
  return plan;
}

std::vector<float> Product(const std::vector<float>& a, const std::vector<float>& b, size_t rows,
                           size_t inner, size_t columns) {
  std::vector<float> result;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (size_t k = 0; k < inner; ++k) {
        sum += static_cast<double>(a[r * inner + k]) * b[k * columns + c];
      }
      result.push_back(static_cast<float>(sum));
    }
  }
  return result;
}

}  // namespace hif8
