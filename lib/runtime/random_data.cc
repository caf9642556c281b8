// Made-up data, for trying a model out.
#include <algorithm>
#include <random>

#include "lib/runtime/data_file.h"

namespace hif8 {
namespace {

bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

bool IsChannels(int64_t d) { return d == 1 || d == 3 || d == 4; }

// Four dimensions of which one is a small fixed number of channels.
bool LooksLikeImage(const Shape& shape) {
  return shape.size() == 4 && (IsChannels(shape[1]) || IsChannels(shape[3]));
}

// A dimension whose size another input has to share.
bool IsShared(const std::string& dim, const GraphValue& owner, std::span<const GraphValue> inputs) {
  return !dim.empty() && std::any_of(inputs.begin(), inputs.end(), [&](const GraphValue& input) {
    return &input != &owner &&
           std::find(input.dim_names.begin(), input.dim_names.end(), dim) != input.dim_names.end();
  });
}

Shape ChooseShape(const GraphValue& input, std::span<const GraphValue> inputs,
                  const ImageOptions& image) {
  constexpr int64_t kLength = 8;
  constexpr int64_t kSignal = 512;  // [batch, n] of floats: a piece of sound, more likely than not
  Shape shape = input.shape;
  const bool is_image = LooksLikeImage(shape);
  const size_t height = is_image && !IsChannels(shape[1]) ? 1 : 2;  // nhwc or nchw
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] >= 0) continue;
    const std::string& name = d < input.dim_names.size() ? input.dim_names[d] : std::string();
    // "past_sequence_length" is empty at first; "past_sequence_length + 1" is not that.
    const bool past = Contains(name, "past") && !Contains(name, "+");
    if (past) {
      shape[d] = 0;
    } else if (d == 0 || Contains(name, "batch")) {
      shape[d] = 1;
    } else if (is_image && (d == height || d == height + 1)) {
      shape[d] = d == height ? image.size[0] : image.size[1];
    } else if (d == 1 && shape.size() == 2 && IsFloat(input.dtype) &&
               !IsShared(name, input, inputs)) {
      shape[d] = kSignal;
    } else {
      shape[d] = kLength;
    }
  }
  return shape;
}

// A sum of twelve uniform numbers: near enough to normal, and the same on every machine.
float Normal(std::mt19937_64& engine) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(engine() >> 11) * 0x1p-53;
  return static_cast<float>(sum);
}

}  // namespace

std::unique_ptr<DataFile> MakeRandomData(uint64_t seed, size_t index, const ImageOptions& image,
                                         std::span<const GraphValue> inputs) {
  auto file = std::make_unique<TensorsFile>();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GraphValue& input = inputs[i];
    std::mt19937_64 engine(seed * 0x9e3779b97f4a7c15 + index * 1000003 + i);
    std::byte* bytes = nullptr;
    Tensor tensor = Tensor::Allocate(input.dtype, ChooseShape(input, inputs, image), &bytes);
    const size_t n = tensor.view.size();
    if (IsFloat(input.dtype)) {
      std::vector<float> values(n);
      for (float& value : values) value = Normal(engine);
      ConvertFromFloat(input.dtype, values.data(), n, bytes);
    } else {
      const size_t size = DTypeSize(input.dtype);
      std::fill_n(bytes, n * size, std::byte{0});
      const bool ones = Contains(input.name, "mask");
      // Little-endian: the first byte of an element is its value.
      for (size_t k = 0; k < n; ++k) bytes[k * size] = std::byte(ones ? 1 : engine() >> 63);
    }
    file->Add(input.name, std::move(tensor));
  }
  return file;
}

}  // namespace hif8
