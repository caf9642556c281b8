#include "apps/hif8-report/pair_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/model/stored_model.h"
#include "lib/quant/compare_models.h"
#include "lib/runtime/session.h"

namespace hif8 {
namespace {

// Tensors that are of no layer come last.
constexpr int kBehindLayers = std::numeric_limits<int>::max();

class PairReport {
 public:
  PairReport(const StoredModel& original, const StoredModel& quantized, const ModelPair& pair,
             const FormatRegistry& formats)
      : original_(original), quantized_(quantized), pair_(pair), formats_(formats) {}

  Report Make() {
    report_.model.path = Name(quantized_);
    report_.model.kind = quantized_.kind();
    report_.model.bytes_before = static_cast<int64_t>(original_.file_bytes());
    report_.model.bytes_after = static_cast<int64_t>(quantized_.file_bytes());
    report_.run.version = HIF8_VERSION;
    for (const StoredTensor& tensor : original_.tensors()) {
      if (tensor.HasValues()) parameters_ += tensor.size();
    }
    for (const TensorPair& pair : pair_.pairs) ++partners_[pair.original];
    for (const TensorPair& pair : pair_.pairs) AddPair(pair);
    std::stable_sort(
        layers_.begin(), layers_.end(),
        [](const PlacedLayer& a, const PlacedLayer& b) { return a.position < b.position; });
    for (PlacedLayer& layer : layers_) report_.layers.push_back(std::move(layer.report));
    for (const auto& [name, format] : used_) report_.formats.push_back(ReportFormat(*format));
    if (parameters_ > 0) {
      report_.coverage.parameters =
          static_cast<double>(quantized_parameters_) / static_cast<double>(parameters_);
    }
    report_.unmatched.emplace();
    for (const size_t i : pair_.only_original) AddUnmatched(original_.tensors()[i], "original");
    for (const size_t i : pair_.only_quantized) AddUnmatched(quantized_.tensors()[i], "quantized");
    return std::move(report_);
  }

 private:
  struct PlacedLayer {
    int position;
    LayerReport report;
  };

  // Also of a folder that is given with a slash at its end.
  static std::string Name(const StoredModel& model) {
    const std::filesystem::path path = model.path().lexically_normal();
    return (path.has_filename() ? path : path.parent_path()).filename().string();
  }

  void AddUnmatched(const StoredTensor& tensor, const char* side) {
    report_.unmatched->push_back({tensor.name, side});
  }

  void AddPair(const TensorPair& pair) {
    const StoredTensor& original = original_.tensors()[pair.original];
    const StoredTensor& quantized = quantized_.tensors()[pair.quantized];
    const std::string suspicion = Suspicion(pair, original, quantized);
    if (!suspicion.empty()) report_.run.warnings.push_back(original.name + ": " + suspicion);
    const bool changed = pair.problem.empty() && !pair.equal;
    if (changed) quantized_parameters_ += original.size();
    if (original.layers.empty() && changed) {
      AddLayer({original.name, "-", kBehindLayers}, pair, changed);
    }
    for (const StoredLayer& layer : original.layers) {
      if (Reads(layer, pair)) AddLayer(layer, pair, changed);
    }
  }

  // A weight may be stored as it was and quantized too, for those who read it in either form.
  bool Reads(const StoredLayer& layer, const TensorPair& pair) const {
    if (partners_.at(pair.original) == 1) return true;
    const auto lists = [&](const TensorPair& other) {
      const std::vector<StoredLayer>& layers = quantized_.tensors()[other.quantized].layers;
      return std::any_of(layers.begin(), layers.end(),
                         [&](const StoredLayer& known) { return known.name == layer.name; });
    };
    if (quantized_.tensors()[pair.quantized].format.empty()) return lists(pair);
    return std::none_of(pair_.pairs.begin(), pair_.pairs.end(), [&](const TensorPair& other) {
      return other.original == pair.original && lists(other);
    });
  }

  void AddLayer(const StoredLayer& layer, const TensorPair& pair, bool changed) {
    LayerReport report;
    report.name = layer.name;
    report.op = layer.op;
    report.quantized = changed;
    if (changed) {
      const StoredTensor& quantized = quantized_.tensors()[pair.quantized];
      report.weight = WeightReport(pair, quantized);
      if (quantized.input_scale) {
        report.activation.emplace();
        report.activation->scale = *quantized.input_scale;
        report.activation->granularity = "tensor";
      }
    } else {
      report.reason = pair.equal ? "the same values as in the original" : pair.problem;
    }
    layers_.push_back({layer.position, std::move(report)});
  }

  OperandReport WeightReport(const TensorPair& pair, const StoredTensor& quantized) {
    OperandReport report;
    SetMetrics(pair.error, &report);
    report.bytes_before = static_cast<int64_t>(original_.tensors()[pair.original].bytes);
    report.bytes_after = static_cast<int64_t>(quantized.bytes);
    report.format = quantized.format;
    if (quantized.format.empty()) {
      report.format = DTypeName(quantized.dtype);
      return report;
    }
    const NumberFormat& format = formats_.Get(quantized.format);
    used_[quantized.format] = &format;
    SetExponents(pair.exponents, format, &report);
    report.granularity = pair.scales == 1 ? "tensor" : Tiles(quantized);
    if (pair.scales == 1) report.scale = quantized_.ReadScales(pair.quantized).front();
    // One rule from the largest magnitude leaves the same ratio everywhere.
    if (pair.most_target > 0 && pair.least_target > 0.99 * pair.most_target) {
      report.target = pair.most_target;
    } else if (pair.most_target > 0) {
      report.notes.push_back(fmt::format("amax / scale is between {:.4g} and {:.4g}",
                                         pair.least_target, pair.most_target));
    }
    if (pair.not_nearest > 0) {
      report.notes.push_back(
          fmt::format("{} of {} values are not the original's rounded to nearest with these scales",
                      pair.not_nearest, quantized.size()));
    }
    return report;
  }

  // "channel" where one dimension has a scale for each index, else the size of a tile.
  static std::string Tiles(const StoredTensor& tensor) {
    const TileLayout& tiles = tensor.tiles;
    std::string text;
    bool whole = true;
    for (size_t i = 0; i < tiles.tile.size(); ++i) {
      whole = whole && (tiles.tile[i] == 1 || tiles.tile[i] == tiles.shape[i]);
      text += (i == 0 ? "" : "x") + std::to_string(tiles.tile[i]);
    }
    return whole ? "channel" : text;
  }

  const StoredModel& original_;
  const StoredModel& quantized_;
  const ModelPair& pair_;
  const FormatRegistry& formats_;
  Report report_;
  std::vector<PlacedLayer> layers_;
  std::map<std::string, const NumberFormat*> used_;
  std::map<size_t, int> partners_;  // of a tensor of the original
  uint64_t parameters_ = 0, quantized_parameters_ = 0;
};

// Weights that a graph computes of its constants, as hif8-calibrate finds them. Files are compared
// without an engine too; these weights have no partner then.
std::vector<Tensor> Evaluate(const RunnableGraph& graph) {
  try {
    return RunConstants(graph);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEnvironment) throw;
    throw ModelError(error.message(), error.hint(), error.where());
  }
}

}  // namespace

Report ReportOfPair(const std::string& original, const std::string& quantized, LogSink& log) {
  const FormatRegistry& formats = StoredFormats();
  // Before either is found to be no model: what is missing may have been meant as a report.
  for (const std::string& path : {original, quantized}) {
    if (std::filesystem::exists(path)) continue;
    throw ModelError("no such file or folder", "give two models, or two folders with report.json",
                     path);
  }
  const std::unique_ptr<StoredModel> before = OpenStoredModel(original, formats, Evaluate);
  const std::unique_ptr<StoredModel> after = OpenStoredModel(quantized, formats, Evaluate);
  const ModelPair pair = CompareModels(*before, *after, formats, log);
  return PairReport(*before, *after, pair, formats).Make();
}

}  // namespace hif8
