#include "lib/model/safetensors/output_layout.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "lib/model/safetensors/checkpoint_layout.h"
#include "lib/numeric/packed_codes.h"
#include "lib/numeric/scale_codes.h"

namespace hif8 {
namespace {

using Kind = OutputTensor::Kind;

constexpr std::string_view kWeightSuffix = ".weight";

// The name of what belongs to the input of the module of a weight.
std::string OfInput(const std::string& weight, const std::string& name) {
  if (!weight.ends_with(kWeightSuffix)) return weight + "_" + name;
  return weight.substr(0, weight.size() - kWeightSuffix.size()) + "." + name;
}

class Layout {
 public:
  Layout(const Checkpoint& source, const CheckpointPlan& plan)
      : source_(source), plan_(plan), layout_(LayoutOf(plan.layout)) {
    for (const auto& [layer, scheme] : plan.layers) {
      const Layer& quantized = source.layers()[static_cast<size_t>(layer)];
      layer_of_weight_[quantized.weight] = layer;
      uniform_ = uniform_ && scheme == plan.layers.begin()->second;
      if (!plan.simulated && layout_.HoldsBias(scheme)) moved_.insert(quantized.name + ".bias");
    }
    if (plan.simulated) return;
    for (const auto& [layer, scale] : plan.cache_scales) {
      const Layer& cache = source.layers()[static_cast<size_t>(layer)];
      const std::string& whole = cache.fused.empty() ? cache.name : cache.fused;
      auto& caches = caches_[source.network().CacheProducer(whole, cache.block)];
      const std::string name = layout_.CacheScaleName(whole);
      if (caches.empty() || caches.back().first != name) caches.push_back({name, {}});
      caches.back().second.push_back(scale);
    }
  }

  std::vector<OutputTensor> Shard(const SafetensorsFile* shard) {
    tensors_.clear();
    for (const CheckpointTensor& tensor : source_.tensors()) {
      if (tensor.shard != shard || tensor.companion) continue;
      const auto layer = layer_of_weight_.find(tensor.weight);
      if (tensor.weight >= 0 && layer != layer_of_weight_.end()) {
        AddQuantized(tensor, layer->second);
      } else if (!moved_.contains(tensor.name())) {
        AddKept(tensor);
      }
      const auto caches = caches_.find(tensor.name());
      if (caches == caches_.end()) continue;
      for (const auto& [name, scales] : caches->second) {
        const auto heads = static_cast<int64_t>(scales.size());
        const Shape shape = source_.head_caches() ? Shape{heads, 1, 1} : Shape{1};
        tensors_.push_back(ValueTensor(name, DType::kF32, shape, scales));
      }
    }
    return std::move(tensors_);
  }

 private:
  OutputTensor& Add(Kind kind, const CheckpointTensor& tensor) {
    OutputTensor& added = tensors_.emplace_back();
    added.kind = kind;
    added.source = &tensor;
    added.entry.name = tensor.name();
    added.entry.dtype = tensor.coded() ? source_.own_dtype() : tensor.entry->dtype;
    added.entry.shape = tensor.entry->shape;
    return added;
  }

  void AddKept(const CheckpointTensor& tensor) {
    const Kind kind = tensor.coded() ? Kind::kDecoded : Kind::kCopy;
    OutputTensor& kept = Add(kind, tensor);
    if (kind == Kind::kCopy) kept.entry = *tensor.entry;
  }

  void AddQuantized(const CheckpointTensor& tensor, int index) {
    if (plan_.simulated) {
      Add(Kind::kSimulated, tensor).weight = tensor.weight;
      return;
    }
    QuantizedLayer layer{source_, source_.layers()[static_cast<size_t>(index)],
                         plan_.layers.at(index), uniform_};
    const auto scale = plan_.input_scales.find(index);
    if (scale != plan_.input_scales.end()) layer.input_scale = scale->second;
    for (OutputTensor& made : layout_.Tensors(layer)) tensors_.push_back(std::move(made));
  }

  const Checkpoint& source_;
  const CheckpointPlan& plan_;
  const CheckpointLayout& layout_;
  bool uniform_ = true;
  std::map<int, int> layer_of_weight_;
  std::set<std::string, std::less<>> moved_;  // biases that stand behind their weights
  // Scales of caches, one or one for each head: name and numbers, by the tensor that they follow.
  std::map<std::string, std::vector<std::pair<std::string, std::vector<float>>>> caches_;
  std::vector<OutputTensor> tensors_;
};

// Along the inputs, which are the last dimension or the one before it.
Shape ScaleShape(const QuantizedLayer& layer) {
  if (layer.scheme.weight_granularity == Granularity::kTensor) return {1};
  const Shape& shape = layer.weight().entry->shape;
  const Weight& weight = layer.source.weights()[static_cast<size_t>(layer.layer.weight)];
  if (weight.kernel) {
    Shape of_channels(shape.size(), 1);
    of_channels.front() = shape.front();
    return of_channels;
  }
  const bool turned = weight.channels.outer > 1;
  const size_t last = shape.size() - 1;
  return TileLayout::Tiles(shape, turned ? last : last - 1, turned ? last - 1 : last,
                           layer.scheme.weight_tile)
      .scale_shape();
}

OutputTensor OfWeight(const QuantizedLayer& layer, Kind kind, const std::string& name, DType dtype,
                      Shape shape) {
  OutputTensor tensor;
  tensor.kind = kind;
  tensor.entry.name = name;
  tensor.entry.dtype = dtype;
  tensor.entry.shape = std::move(shape);
  tensor.source = &layer.weight();
  tensor.weight = layer.layer.weight;
  return tensor;
}

}  // namespace

std::string PackedName(const std::string& weight) { return weight + "_packed"; }

std::string WeightScaleName(const std::string& weight) { return weight + "_scale"; }

std::string GlobalScaleName(const std::string& weight) { return weight + "_global_scale"; }

std::string InputScaleName(const std::string& weight) { return OfInput(weight, "input_scale"); }

std::string InputGlobalScaleName(const std::string& weight) {
  return OfInput(weight, "input_global_scale");
}

OutputTensor CodesTensor(const QuantizedLayer& layer, const std::string& name) {
  Shape shape = layer.weight().entry->shape;
  const DType dtype = layer.scheme.weight_format->storage().dtype;
  if (!layer.scheme.weight_format->packed()) {
    return OfWeight(layer, Kind::kCodes, name, dtype, shape);
  }
  shape.back() = static_cast<int64_t>(PackedRowBytes(static_cast<size_t>(shape.back())));
  return OfWeight(layer, Kind::kPacked, name, dtype, shape);
}

OutputTensor MadeTensor(const QuantizedLayer& layer, const std::string& name, DType dtype,
                        Shape shape,
                        std::function<std::vector<std::byte>(const EncodedWeight&)> make,
                        const CheckpointTensor* bias) {
  OutputTensor tensor = OfWeight(layer, Kind::kMade, name, dtype, std::move(shape));
  tensor.make = std::move(make);
  tensor.bias = bias;
  return tensor;
}

OutputTensor ScalesTensor(const QuantizedLayer& layer, const std::string& name) {
  const DType dtype = layer.scheme.scale_dtype;
  const Shape shape = ScaleShape(layer);
  const size_t count = ElementCount(shape);
  const NumberFormat& format = *layer.scheme.weight_format;
  return MadeTensor(layer, name, dtype, shape,
                    [&format, dtype, count](const EncodedWeight& encoded) {
                      if (!IsFloat(dtype)) {
                        const auto codes = ScaleCodes(format, encoded.scales, encoded.global_scale);
                        const auto bytes = std::as_bytes(std::span(codes));
                        return std::vector<std::byte>(bytes.begin(), bytes.end());
                      }
                      if (encoded.scales.size() == count) return NumberBytes(encoded.scales, dtype);
                      std::vector<float> repeated(count);
                      for (size_t i = 0; i < count; ++i)
                        repeated[i] = encoded.scales[i % encoded.scales.size()];
                      return NumberBytes(repeated, dtype);
                    });
}

OutputTensor ValueTensor(const std::string& name, DType dtype, Shape shape,
                         std::vector<float> values) {
  OutputTensor tensor;
  tensor.kind = Kind::kValues;
  tensor.entry.name = name;
  tensor.entry.dtype = dtype;
  tensor.entry.shape = std::move(shape);
  tensor.values = std::move(values);
  return tensor;
}

std::vector<std::byte> NumberBytes(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * DTypeSize(dtype));
  if (dtype == DType::kI32) {
    auto* const integers = reinterpret_cast<int32_t*>(bytes.data());
    std::transform(values.begin(), values.end(), integers,
                   [](float value) { return static_cast<int32_t>(std::nearbyint(value)); });
  } else {
    ConvertFromFloat(dtype, values.data(), values.size(), bytes.data());
  }
  return bytes;
}

std::vector<OutputShard> LayOutShards(const Checkpoint& source, const CheckpointPlan& plan) {
  Layout layout(source, plan);
  std::vector<OutputShard> shards;
  for (const auto& shard : source.files().shards) {
    shards.push_back({shard->path().filename().string(), shard.get(), layout.Shard(shard.get())});
  }
  return shards;
}

uint64_t DataBytes(const OutputShard& shard) {
  uint64_t bytes = 0;
  for (const OutputTensor& tensor : shard.tensors) {
    bytes += DataBytes(tensor.entry);
  }
  return bytes;
}

}  // namespace hif8
