#include "lib/runtime/part_session.h"

#include <algorithm>
#include <utility>

#include "lib/core/number_text.h"
#include "lib/core/parallel.h"
#include "lib/model/safetensors/decoder.h"

namespace hif8 {
namespace {

constexpr size_t kPieceElements = size_t{1} << 20;

std::string KeyOf(const PartOptions& options) {
  std::string key = std::to_string(static_cast<int>(options.mode));
  for (const std::string& name : options.observed) key += "\n" + name;
  key += "\n";
  for (const auto& [name, input] : options.inputs) {
    key += "\n" + name + (input.how->clip ? " clipped " : " ") + QuantizeOperator(input);
    if (const auto& dynamic = input.how->dynamic) {
      key += " " + std::to_string(input.axis) + " " + std::to_string(dynamic->tile.inputs) +
             (dynamic->power_of_two ? " power " : " ") + ShortestText(dynamic->target);
    }
  }
  key += "\n";
  for (const std::string& name : options.weights) key += "\n" + name;
  return key;
}

}  // namespace

DecoderParts::DecoderParts(const Network& network, const FormatRegistry& formats, TapSink* taps,
                           LogSink* log)
    : fronts([&network](PartOptions o) { return network.Front(std::move(o)); }, formats, taps, log),
      experts([&network](PartOptions o) { return network.Expert(std::move(o)); }, formats, taps,
              log),
      norms([&network](PartOptions o) { return DecoderNorm(network.spec, std::move(o)); }, formats,
            taps, log),
      heads([&network](PartOptions o) { return DecoderHead(network.spec, std::move(o)); }, formats,
            taps, log),
      network_(network),
      formats_(formats),
      taps_(taps),
      log_(log) {}

PartSessions& DecoderParts::Block(int64_t block) {
  const BlockKind kind = network_.spec.At(block).kind;
  const auto describe = [this, kind](PartOptions o) {
    return DecoderBlock(network_.spec, kind, std::move(o));
  };
  return blocks_.try_emplace(kind, describe, formats_, taps_, log_).first->second;
}

const PartSession& PartSessions::Get(const PartOptions& options) {
  PartSession& entry = sessions_[KeyOf(options)];
  if (entry.session != nullptr) return entry;
  entry.part = describe_(options);
  SessionOptions settings;
  settings.log = log_;
  settings.taps = taps_;
  for (const auto& [name, input] : options.inputs) {
    const std::string op = QuantizeOperator(input);
    const bool known = std::any_of(settings.operators.begin(), settings.operators.end(),
                                   [&](const NativeOperator& o) { return o.name == op; });
    if (known) continue;
    settings.operators.push_back(
        {kQuantizeDomain, op, input.how->format, input.how->dynamic.has_value()});
  }
  entry.session = std::make_unique<Session>(entry.part.graph, settings);
  return entry;
}

Tensor ConstantLoader::LoadRows(const std::string& tensor, bool quantized, int64_t begin,
                                int64_t end) const {
  const TensorSlice slice = checkpoint_.Locate(tensor);
  const size_t row = RowSize(slice.tensor->entry->shape);
  Shape shape = {end - begin};
  if (slice.tensor->entry->shape.size() > 1) shape.push_back(static_cast<int64_t>(row));
  std::byte* bytes = nullptr;
  Tensor result = Tensor::Allocate(DType::kF32, shape, &bytes);
  auto* values = reinterpret_cast<float*>(bytes);
  const auto step =
      static_cast<int64_t>(std::max<size_t>(kPieceElements / std::max<size_t>(row, 1), 1));
  const int64_t pieces = (end - begin + step - 1) / step;
  ParallelFor(static_cast<size_t>(pieces), [&](size_t i) {
    const int64_t first = begin + static_cast<int64_t>(i) * step;
    const int64_t last = std::min(first + step, end);
    float* out = values + static_cast<size_t>(first - begin) * row;
    if (quantized) {
      quantized_(slice.tensor->name(), slice.first + first, slice.first + last, out);
    } else {
      checkpoint_.ReadRows(*slice.tensor, slice.first + first, slice.first + last, out);
    }
  });
  return result;
}

NamedTensors ConstantLoader::LoadHead(const Network& network, int64_t begin, int64_t end) const {
  const HeadSpec& head = network.spec.head;
  NamedTensors tensors;
  tensors[head.name + ".weight"] = LoadRows(network.head, false, begin, end);
  if (!head.bias.empty()) tensors[head.bias] = LoadRows(head.bias, false, begin, end);
  return tensors;
}

NamedTensors ConstantLoader::Load(std::span<const PartGraph* const> parts,
                                  const std::string& prefix) const {
  NamedTensors tensors;
  for (const PartGraph* part : parts) {
    for (const PartConstant& constant : part->constants) {
      if (tensors.contains(constant.input)) continue;
      const std::string name = prefix + constant.tensor;
      Tensor& tensor = tensors[constant.input];
      tensor = LoadRows(name, constant.quantized, 0, checkpoint_.Locate(name).rows);
      // Loaded as rows of the last dimension; of a table with fewer, the graph takes what it needs.
      const bool whole = std::all_of(constant.shape.begin(), constant.shape.end(),
                                     [](int64_t n) { return n >= 0; });
      if (whole) tensor.view.shape = constant.shape;
    }
  }
  return tensors;
}

std::map<std::string, QuantizedInput> QuantizedInputs(
    const Checkpoint& checkpoint, const std::map<int, QuantizedActivation>& quantized,
    const std::string& prefix, const std::vector<PartLayer>& layers) {
  std::map<std::string, QuantizedInput> inputs;
  for (const PartLayer& layer : layers) {
    for (const std::string& name : {layer.activation, layer.second_activation}) {
      if (name.empty()) continue;
      const int index = checkpoint.ActivationIndex(prefix + name);
      const auto found = quantized.find(index);
      if (found == quantized.end()) continue;
      inputs[name] = {&found->second.how,
                      checkpoint.activations()[static_cast<size_t>(index)].input_axis};
    }
  }
  return inputs;
}

void AddScales(const Checkpoint& checkpoint, const std::map<int, QuantizedActivation>& quantized,
               const PartGraph& part, const std::string& prefix, NamedTensors* inputs) {
  const auto find = [&](const std::string& name) -> const FakeQuantize& {
    return quantized.at(checkpoint.ActivationIndex(prefix + name)).how;
  };
  for (const std::string& name : part.scales) {
    (*inputs)[name + ":scale"] = FloatTensor({&find(name).scale, 1}, {});
  }
  for (const std::string& name : part.clips) {
    (*inputs)[name + ":clip"] = FloatTensor({&*find(name).clip, 1}, {});
  }
}

Tensor FloatTensor(std::span<const float> values, Shape shape) {
  Tensor tensor;
  tensor.view = {DType::kF32, std::move(shape), reinterpret_cast<const std::byte*>(values.data())};
  return tensor;
}

}  // namespace hif8
