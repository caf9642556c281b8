#include "lib/quant/checkpoint_exporter.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "lib/core/error.h"
#include "lib/model/safetensors/checkpoint_layout.h"
#include "lib/model/safetensors/written_checkpoint.h"
#include "lib/quant/config_layers.h"

namespace hif8 {
namespace {

// Opens each file when its first weight is read: others may not be there yet.
class Written : public WrittenWeights {
 public:
  Written(std::shared_ptr<const Checkpoint> checkpoint, const QuantPlan& plan,
          std::filesystem::path dir)
      : checkpoint_(std::move(checkpoint)), plan_(plan), dir_(std::move(dir)) {}

  WrittenWeight Read(int weight) const override {
    const WeightPlan& plan = plan_.weights.at(weight);
    const std::string& name = checkpoint_->weights()[static_cast<size_t>(weight)].name;
    return ReadWrittenWeight(*FileOf(weight), name, *plan.format, plan.layout);
  }

 private:
  std::shared_ptr<const SafetensorsFile> FileOf(int weight) const {
    const auto name = checkpoint_->tensor_of_weight(weight).shard->path().filename();
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const SafetensorsFile>& file = files_[name];
    if (file == nullptr) file = SafetensorsFile::Open(dir_ / name);
    return file;
  }

  std::shared_ptr<const Checkpoint> checkpoint_;
  const QuantPlan& plan_;
  std::filesystem::path dir_;
  mutable std::mutex mutex_;
  mutable std::map<std::filesystem::path, std::shared_ptr<const SafetensorsFile>> files_;
};

DType ScaleDTypeOf(const WeightPlan& weight) {
  const NumberFormat* codes = weight.format->storage().scale_format;
  if (weight.format->ScalesFollowAmax()) return codes ? codes->storage().dtype : DType::kU8;
  return weight.params.scale_dtype == ScaleDType::kBF16 ? DType::kBF16 : DType::kF32;
}

LayerScheme SchemeOf(const Layer& layer, const QuantPlan& plan) {
  LayerScheme scheme;
  const WeightPlan& weight = plan.weights.at(layer.weight);
  scheme.weight_format = weight.format;
  scheme.weight_granularity = weight.config.granularity;
  scheme.weight_tile = weight.tile;
  scheme.scale_dtype = ScaleDTypeOf(weight);
  const auto input = plan.activations.find(layer.activation);
  if (input != plan.activations.end()) {
    const OperandPlan& operand = input->second;
    scheme.input_format = operand.format;
    scheme.input_granularity = operand.config.granularity;
    scheme.input_dynamic = operand.dynamic.has_value() || !operand.NeedsData();
    if (operand.dynamic) {
      scheme.input_tile = operand.dynamic->tile;
    }
  }
  return scheme;
}

// The schemes of the quantized layers with weights, by index.
std::map<int, LayerScheme> SchemesOf(const Checkpoint& checkpoint, const QuantPlan& plan) {
  std::map<int, LayerScheme> schemes;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const Layer& layer = checkpoint.layers()[i];
    if (!plan.layers[i].quantized || layer.weight < 0) continue;
    schemes.emplace(static_cast<int>(i), SchemeOf(layer, plan));
  }
  return schemes;
}

// What a layout cannot hold, each problem once.
class LayoutCheck {
 public:
  explicit LayoutCheck(const QuantConfig& config) : config_(config), rules_(config) {}

  void Add(const std::optional<LayoutProblem>& problem, const std::string& layer) {
    if (!problem) return;
    const std::string place = rules_.PlaceOf(problem->key, layer);
    auto& [found, layers] = problems_[{problem->what, place}];
    found = *problem;
    layers.push_back(layer);
  }

  void ThrowIfAny() const {
    std::optional<Error> all;
    for (const auto& [at, problem] : problems_) {
      const auto& [found, layers] = problem;
      std::string text = found.key + ": layout " + std::string(NameOf(config_.layout)) +
                         " cannot hold " + found.what + " ('" + layers.front() + "'";
      if (layers.size() > 1) text += " and " + std::to_string(layers.size() - 1) + " more";
      const std::string& place = at.second;
      const Error error = UsageError(text + ")", "what would do: " + found.instead,
                                     place.empty() ? config_.places.Of("layout") : place);
      if (!all) {
        all = error;
      } else {
        all->Add(error);
      }
    }
    if (all) throw Error(*all);
  }

 private:
  const QuantConfig& config_;
  LayerRules rules_;
  // By what and where.
  std::map<std::pair<std::string, std::string>, std::pair<LayoutProblem, std::vector<std::string>>>
      problems_;
};

}  // namespace

bool CheckpointExporter::Writes(int weight) const {
  return checkpoint_->Writes(*checkpoint_->tensor_of_weight(weight).shard);
}

CheckpointPlan CheckpointExporter::MakeCheckpointPlan(
    const QuantPlan& plan, bool simulated, const std::map<int, FakeQuantize>* activations) const {
  const auto scale = [&](const Layer& layer) {
    return activations == nullptr ? 1 : activations->at(layer.activation).scale;
  };
  CheckpointPlan result;
  result.simulated = simulated;
  result.layout = config_.layout;
  result.layers = SchemesOf(*checkpoint_, plan);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (!plan.layers[i].quantized) continue;
    const Layer& layer = checkpoint_->layers()[i];
    const int index = static_cast<int>(i);
    if (layer.kind == LayerKind::kProduct) continue;  // files have no names for its scales
    if (layer.kind == LayerKind::kCache) {
      result.cache_scales[index] = scale(layer);
      result.cache_format = plan.activations.at(layer.activation).format;
      continue;
    }
    const LayerScheme& scheme = result.layers.at(index);
    const bool global = scheme.input_format != nullptr && scheme.input_format->HasGlobalScale();
    if (global || !scheme.input_dynamic) result.input_scales[index] = scale(layer);
  }
  return result;
}

std::vector<std::string> CheckpointExporter::Check(const QuantPlan& plan, bool simulated) const {
  const CheckpointLayout& layout = LayoutOf(config_.layout);
  const std::map<int, LayerScheme> schemes = SchemesOf(*checkpoint_, plan);
  const bool uniform = std::all_of(schemes.begin(), schemes.end(), [&](const auto& entry) {
    return entry.second == schemes.begin()->second;
  });
  LayoutCheck check(config_);
  std::vector<std::string> notices;
  size_t biases = 0;
  size_t products = 0;
  for (const auto& [index, scheme] : schemes) {
    const Layer& layer = checkpoint_->layers()[static_cast<size_t>(index)];
    const QuantizedLayer quantized{*checkpoint_, layer, scheme, uniform};
    check.Add(layout.Problem(quantized), layer.name);
    biases += layout.HoldsBias(scheme) && quantized.bias() != nullptr ? 1 : 0;
  }
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const Layer& layer = checkpoint_->layers()[i];
    if (!plan.layers[i].quantized) continue;
    products += layer.kind == LayerKind::kProduct ? 1 : 0;
    if (layer.kind != LayerKind::kCache) continue;
    const OperandPlan& cache = plan.activations.at(layer.activation);
    check.Add(layout.CacheProblem(layer, cache.format->name(), cache.NeedsData()), layer.name);
  }
  if (!simulated) check.ThrowIfAny();
  CheckHeaders(*checkpoint_, MakeCheckpointPlan(plan, simulated, nullptr));
  if (simulated) return notices;
  const std::string in_layout = "layout " + std::string(NameOf(config_.layout)) + ": ";
  if (biases > 0) {
    notices.push_back(in_layout + "the biases of " + std::to_string(biases) +
                      " HiF8 layers are divided by their weights' scales, since its operator adds "
                      "them before it multiplies by the scales");
  }
  if (products > 0) {
    notices.push_back(in_layout + "the scales of " + std::to_string(products) +
                      " products of attention are in calibration.yaml only, since loaders know no "
                      "names for them");
  }
  return notices;
}

uint64_t CheckpointExporter::Write(const ExportRequest& request, const std::filesystem::path& dir,
                                   LogSink& log) const {
  CheckpointPlan plan = MakeCheckpointPlan(request.plan, request.simulated, &request.activations);
  plan.fingerprint = checkpoint_->ComputeFingerprint().hash + "\n" + WriteRecipe(config_);
  FinishedWeights finished;
  if (request.finished) {
    const auto written = std::make_shared<const Written>(checkpoint_, request.plan, dir);
    finished = [&request, written](std::vector<int> weights) {
      request.finished(written, std::move(weights));
    };
  }
  WriteCheckpoint(*checkpoint_, plan, formats_, request.encode, dir, log, finished);
  uint64_t bytes = 0;
  for (const auto& shard : checkpoint_->files().shards) {
    if (!checkpoint_->Writes(*shard)) continue;
    bytes += std::filesystem::file_size(dir / shard->path().filename());
  }
  return bytes;
}

}  // namespace hif8
