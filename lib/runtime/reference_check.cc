#include "lib/runtime/reference_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "lib/core/error.h"
#include "lib/model/safetensors/safetensors_file.h"
#include "lib/runtime/checkpoint_source.h"

namespace hif8 {
namespace {

constexpr const char* kIds = "input_ids";
constexpr const char* kPixels = "pixel_values";
constexpr const char* kHint = "samples/capture/record_reference.py writes such a file";
constexpr std::string_view kAmax = "input_amax.";

class Recording {
 public:
  explicit Recording(const std::filesystem::path& path) : file_(SafetensorsFile::Open(path)) {}

  // What the network read.
  TokenData Data(const DecoderSpec& spec, LogSink& log) const {
    return spec.input == InputType::kImage ? Images(spec.image, log) : Ids();
  }

  // The network's end: logits, or what a network without a head gives.
  const char* EndName() const {
    for (const char* name : {"image_embeds", "pooler_output"}) {
      if (file_->Find(name) != nullptr && file_->Find("logits") == nullptr) return name;
    }
    return "logits";
  }

  // |difference| / |recorded| over samples that lie one behind the other.
  double Difference(const std::string& name, const std::vector<std::vector<float>>& samples) const {
    const std::vector<float> recorded = Floats(Get(name));
    double difference = 0;
    double norm = 0;
    size_t at = 0;
    for (const auto& sample : samples) {
      if (at + sample.size() > recorded.size()) break;
      for (const float value : sample) {
        const double expected = recorded[at++];
        difference += (value - expected) * (value - expected);
        norm += expected * expected;
      }
    }
    size_t values = 0;
    for (const auto& sample : samples) values += sample.size();
    if (values != recorded.size()) {
      Fail("'" + name + "': expected " + std::to_string(values) + " values, found " +
           std::to_string(recorded.size()));
    }
    return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
  }

  // The largest magnitudes that were recorded, by module.
  std::vector<std::pair<std::string, double>> Inputs() const {
    std::vector<std::pair<std::string, double>> list;
    for (const SafetensorsEntry& entry : file_->tensors()) {
      if (!entry.name.starts_with(kAmax) || ElementCount(entry.shape) != 1) continue;
      list.emplace_back(entry.name.substr(kAmax.size()), Floats(entry).front());
    }
    return list;
  }

 private:
  [[noreturn]] void Fail(const std::string& message) const {
    throw ModelError(message, kHint, file_->path().string());
  }
  const SafetensorsEntry& Get(const std::string& name) const {
    const SafetensorsEntry* entry = file_->Find(name);
    if (entry == nullptr) Fail("tensor '" + name + "' is missing");
    return *entry;
  }
  std::vector<float> Floats(const SafetensorsEntry& entry) const {
    if (!IsFloat(entry.dtype)) Fail("'" + entry.name + "': expected floats");
    const Tensor tensor = file_->Read(entry);
    std::vector<float> values(ElementCount(entry.shape));
    ConvertToFloat(entry.dtype, tensor.view.data, values.size(), values.data());
    return values;
  }

  TokenData Images(const ImageSpec& image, LogSink& log) const {
    Get(kPixels);
    DataOptions options;
    options.source = file_->path().string();
    options.leading = LeadingDimension::kBatch;
    const GraphValue pixels{
        kPixels, DType::kF32, true, {-1, image.channels, image.size, image.size}, {"", "", "", ""}};
    TokenData data;
    data.source = options.source;
    data.images = OpenDataset(options, {&pixels, 1}, log);
    return data;
  }
  TokenData Ids() const {
    const SafetensorsEntry& entry = Get(kIds);
    if (entry.dtype != DType::kI64 || entry.shape.size() != 2) {
      Fail("'input_ids': expected I64 of two dimensions, found " +
           std::string(DTypeName(entry.dtype)) + " " + ShapeText(entry.shape));
    }
    TokenData data;
    data.source = file_->path().string();
    const auto length = static_cast<size_t>(entry.shape[1]);
    const auto bytes = file_->Bytes(entry);
    for (int64_t i = 0; i < entry.shape[0]; ++i) {
      std::vector<int64_t> sample(length);
      std::memcpy(sample.data(), bytes.data() + static_cast<size_t>(i) * length * sizeof(int64_t),
                  length * sizeof(int64_t));
      data.samples.push_back(std::move(sample));
    }
    return data;
  }

  std::shared_ptr<const SafetensorsFile> file_;
};

// Layers in the order in which a run computes them.
std::vector<std::string> LayersInOrder(const Checkpoint& checkpoint) {
  const Network& network = checkpoint.network();
  std::vector<std::string> names;
  if (network.spec.HasFront()) {
    for (const PartLayer& layer : network.Front({}).layers) {
      names.push_back(network.prefix + layer.name);
    }
  }
  for (int64_t b = 0; b < network.spec.blocks; ++b) {
    for (const PartLayer& layer : network.Block(b, {}).layers) {
      names.push_back(network.BlockPrefix(b) + layer.name);
    }
    if (!network.spec.At(b).kind.sparse) continue;
    const std::vector<PartLayer> expert = network.Expert({}).layers;
    for (int64_t e = 0; e < network.spec.experts.count; ++e) {
      for (const PartLayer& layer : expert) {
        names.push_back(network.ExpertPrefix(b, e) + layer.name);
      }
    }
  }
  for (const PartLayer& layer : TailLayers(network.spec)) names.push_back(layer.name);
  return names;
}

std::vector<InputCheck> CheckInputs(const Checkpoint& checkpoint, CheckpointSource& source,
                                    const Recording& recording) {
  std::map<int, InputCheck> by_layer;
  std::vector<int> wanted;
  for (const auto& [name, amax] : recording.Inputs()) {
    const int index = checkpoint.LayerIndex(name);
    if (index < 0) continue;
    const Layer& layer = checkpoint.layers()[static_cast<size_t>(index)];
    by_layer[index] = {name, layer.block, amax, 0};
    wanted.push_back(layer.activation);
  }
  std::vector<InputCheck> checks;
  if (wanted.empty()) return checks;
  const std::vector<TensorStats> stats = source.Collect(wanted);
  for (const std::string& name : LayersInOrder(checkpoint)) {
    const auto check = by_layer.find(checkpoint.LayerIndex(name));
    if (check == by_layer.end()) continue;
    const Layer& layer = checkpoint.layers()[static_cast<size_t>(check->first)];
    check->second.found = stats[static_cast<size_t>(layer.activation)].amax();
    checks.push_back(check->second);
    by_layer.erase(check);
  }
  return checks;
}

}  // namespace

double InputCheck::difference() const {
  return std::abs(found - recorded) / std::max(std::abs(recorded), 1e-30);
}

ReferenceCheck CheckReference(const std::shared_ptr<const Checkpoint>& checkpoint,
                              const std::filesystem::path& reference, const FormatRegistry& formats,
                              LogSink& log) {
  const Recording recording(reference);
  const DecoderSpec& spec = checkpoint->network().spec;
  CheckpointSource source(checkpoint, {recording.Data(spec, log), {}}, formats, log);
  const CheckpointSource::Trace trace = source.Run();
  ReferenceCheck check;
  for (size_t b = 0; b < trace.hidden.size(); ++b) {
    check.blocks.push_back(
        recording.Difference("hidden_states." + std::to_string(b), trace.hidden[b]));
  }
  check.logits = recording.Difference(recording.EndName(), trace.logits);
  check.inputs = CheckInputs(*checkpoint, source, recording);
  return check;
}

}  // namespace hif8
