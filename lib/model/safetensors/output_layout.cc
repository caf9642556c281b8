#include "lib/model/safetensors/output_layout.h"

#include <utility>

#include "lib/numeric/packed_codes.h"

namespace hif8 {
namespace {

using Kind = OutputTensor::Kind;

constexpr std::string_view kWeightSuffix = ".weight";

bool HasGlobalScale(const NumberFormat& format) {
  return format.HasGlobalScale();
}

// The name of what belongs to the input of the module of a weight.
std::string OfInput(const std::string& weight, const std::string& name) {
  if (!weight.ends_with(kWeightSuffix)) return weight + "_" + name;
  return weight.substr(0, weight.size() - kWeightSuffix.size()) + "." + name;
}

class Layout {
 public:
  Layout(const Checkpoint& source, const CheckpointPlan& plan) : source_(source), plan_(plan) {
    for (const auto& [layer, scheme] : plan.layers) {
      layer_of_weight_[source.layers()[static_cast<size_t>(layer)].weight] = layer;
    }
    if (plan.simulated) return;
    for (const auto& [layer, scale] : plan.cache_scales) {
      const Layer& cache = source.layers()[static_cast<size_t>(layer)];
      cache_after_.emplace(source.network().CacheProducer(cache.name, cache.block),
                           std::pair(cache.name + "_scale", scale));
    }
  }

  std::vector<OutputTensor> Shard(const SafetensorsFile* shard) {
    tensors_.clear();
    for (const CheckpointTensor& tensor : source_.tensors()) {
      if (tensor.shard != shard || tensor.companion) continue;
      const auto layer = layer_of_weight_.find(tensor.weight);
      if (tensor.weight >= 0 && layer != layer_of_weight_.end()) {
        AddQuantized(tensor, layer->second);
      } else {
        AddKept(tensor);
      }
      const auto [first, last] = cache_after_.equal_range(tensor.name());
      for (auto cache = first; cache != last; ++cache) {
        AddValue(cache->second.first, cache->second.second);
      }
    }
    return std::move(tensors_);
  }

 private:
  OutputTensor& Add(Kind kind, std::string name, DType dtype, Shape shape) {
    OutputTensor tensor;
    tensor.kind = kind;
    tensor.entry.name = std::move(name);
    tensor.entry.dtype = dtype;
    tensor.entry.shape = std::move(shape);
    tensors_.push_back(std::move(tensor));
    return tensors_.back();
  }

  void AddValue(const std::string& name, float value) {
    Add(Kind::kValue, name, DType::kF32, {1}).value = value;
  }

  DType OwnDType(const CheckpointTensor& tensor) const {
    return tensor.scale != nullptr ? source_.own_dtype() : tensor.entry->dtype;
  }

  void AddKept(const CheckpointTensor& tensor) {
    const Kind kind = tensor.scale != nullptr ? Kind::kDecoded : Kind::kCopy;
    OutputTensor& kept = Add(kind, tensor.name(), OwnDType(tensor), tensor.entry->shape);
    kept.source = &tensor;
    if (kind == Kind::kCopy) kept.entry = *tensor.entry;
  }

  void AddQuantized(const CheckpointTensor& tensor, int layer) {
    const LayerScheme& scheme = plan_.layers.at(layer);
    const DType dtype = scheme.weight_format->storage().dtype;
    const Shape& shape = tensor.entry->shape;
    if (plan_.simulated) {
      Mark(&Add(Kind::kSimulated, tensor.name(), OwnDType(tensor), shape), tensor);
      return;
    }
    if (scheme.weight_format->packed()) {
      Shape packed = shape;
      packed.back() = static_cast<int64_t>(PackedRowBytes(static_cast<size_t>(shape.back())));
      Mark(&Add(Kind::kPacked, PackedName(tensor.name()), dtype, packed), tensor);
    } else {
      Mark(&Add(Kind::kCodes, tensor.name(), dtype, shape), tensor);
    }
    Mark(&Add(Kind::kScales, WeightScaleName(tensor.name()), scheme.scale_dtype,
              ScaleShape(tensor, scheme)),
         tensor);
    if (HasGlobalScale(*scheme.weight_format)) {
      Mark(&Add(Kind::kGlobal, GlobalScaleName(tensor.name()), DType::kF32, {1}), tensor);
    }
    const auto scale = plan_.input_scales.find(layer);
    if (scale == plan_.input_scales.end()) return;
    if (HasGlobalScale(*scheme.input_format)) {
      AddValue(InputGlobalScaleName(tensor.name()), 1 / scale->second);
    } else {
      AddValue(InputScaleName(tensor.name()), scale->second);
    }
  }

  static void Mark(OutputTensor* output, const CheckpointTensor& tensor) {
    output->source = &tensor;
    output->weight = tensor.weight;
  }

  // Along the inputs, which are the last dimension or the one before it.
  Shape ScaleShape(const CheckpointTensor& tensor, const LayerScheme& scheme) const {
    if (scheme.weight_granularity == Granularity::kTensor) return {1};
    const Shape& shape = tensor.entry->shape;
    const bool turned = source_.weights()[static_cast<size_t>(tensor.weight)].channels.outer > 1;
    const size_t last = shape.size() - 1;
    return TileLayout::Tiles(shape, turned ? last : last - 1, turned ? last - 1 : last,
                             scheme.weight_tile)
        .scale_shape();
  }

  const Checkpoint& source_;
  const CheckpointPlan& plan_;
  std::map<int, int> layer_of_weight_;
  std::multimap<std::string, std::pair<std::string, float>> cache_after_;
  std::vector<OutputTensor> tensors_;
};

}  // namespace

std::string PackedName(const std::string& weight) { return weight + "_packed"; }

std::string WeightScaleName(const std::string& weight) { return weight + "_scale"; }

std::string GlobalScaleName(const std::string& weight) { return weight + "_global_scale"; }

std::string InputScaleName(const std::string& weight) { return OfInput(weight, "input_scale"); }

std::string InputGlobalScaleName(const std::string& weight) {
  return OfInput(weight, "input_global_scale");
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
