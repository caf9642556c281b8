#include "apps/hif8-report/inspect.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "apps/common/plan_summary.h"
#include "apps/hif8-report/inspection.h"
#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/model/onnx/onnx_model.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/quant/config.h"
#include "lib/quant/plan.h"
#include "lib/report/text_util.h"
#include "lib/runtime/session.h"

namespace hif8 {
namespace {

// As something that can be quantized. Throws kModel where it cannot, such as when it already is.
// `architecture`: the description of a checkpoint's network, or empty.
std::shared_ptr<const Model> OpenToQuantize(const std::string& path, std::string_view kind,
                                            const std::string& architecture, LogSink& log) {
  if (kind == "safetensors") {
    if (architecture.empty()) return Checkpoint::Open(path, StoredFormats());
    return Checkpoint::Open(path, StoredFormats(), {}, true, ReadDescription(architecture));
  }
  if (!architecture.empty()) {
    throw UsageError("--architecture: an ONNX model has its graph in itself",
                     "leave it out; it is for checkpoints");
  }
  OnnxLoadOptions options;
  options.evaluate = RunConstants;
  namespace fs = std::filesystem;
  return OnnxModel::Load(fs::is_directory(path) ? fs::path(path) / "model.onnx" : fs::path(path),
                         log, options);
}

PlannedTensor PlanOf(const Model& model, const QuantPlan& plan, size_t layer) {
  const LayerPlan& decided = plan.layers[layer];
  if (!decided.quantized) return {decided.reason, "", "", ""};
  const WeightPlan& weight = plan.weights.at(model.layers()[layer].weight);
  return {"", std::string(weight.format->name()), std::string(NameOf(weight.config.granularity)),
          std::string(weight.rule->name())};
}

void AddPlan(const std::string& path, const std::string& architecture, const QuantConfig& config,
             const ParseContext& context, LogSink& log, Inspection* inspection) {
  std::shared_ptr<const Model> model;
  try {
    model = OpenToQuantize(path, inspection->kind, architecture, log);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kModel) throw;
    inspection->no_plan = error.message();
    return;
  }
  const QuantPlan plan = MakePlan(*model, config, context);
  std::map<std::string, PlannedTensor> of_tensor;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const int weight = model->layers()[i].weight;
    if (weight < 0) continue;
    of_tensor.emplace(model->weights()[static_cast<size_t>(weight)].name, PlanOf(*model, plan, i));
  }
  for (InspectedTensor& tensor : inspection->tensors) {
    const auto found = of_tensor.find(tensor.stored.name);
    if (found != of_tensor.end()) tensor.plan = found->second;
  }
  inspection->plan = Summarize(*model, plan);
  inspection->caveat = model->caveat();
}

}  // namespace

void Inspect(const cli::ParsedOptions& options, cli::Console& console) {
  for (const char* other : {"output", "sort", "top", "where", "columns", "compare", "fail-if"}) {
    if (!options.Has(other)) continue;
    throw UsageError("--" + std::string(other) + " has no meaning for inspect",
                     "inspect takes --recipe, --architecture and --json");
  }
  const std::string form = options.Text("to", "text");
  if (form != "text" && form != "json") {
    throw UsageError("--to " + form + ": inspect prints text or json",
                     "leave it out, or give json");
  }
  const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
  const std::string recipe = options.Text("recipe", "inference");
  const QuantConfig config = LoadConfig(recipe, {}, {}, context);
  const std::string path = options.Text("OTHER");
  const std::unique_ptr<StoredModel> model = OpenStoredModel(path, StoredFormats());
  const NumberFormat& format = context.formats.Get(config.weights.format);
  Inspection inspection =
      InspectTensors(*model, StoredFormats(), config.weights.target, console.log());
  inspection.recipe = recipe;
  AddPlan(path, options.Text("architecture"), config, context, console.log(), &inspection);
  const bool json = console.json() || form == "json";
  console.Print(
      json ? InspectionJson(inspection)
           : InspectionText(inspection, format, console.unicode(), console.stdout_width()));
}

}  // namespace hif8
