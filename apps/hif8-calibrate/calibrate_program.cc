#include "apps/hif8-calibrate/calibrate_program.h"

#include <string>
#include <utility>
#include <vector>

#include "apps/hif8-calibrate/calibrate_options.h"
#include "apps/hif8-calibrate/job.h"
#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/model/safetensors/checkpoint_layout.h"
#include "lib/model/safetensors/description.h"

namespace hif8 {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

template <typename T>
Rows RegistryRows(const Registry<T>& registry) {
  Rows rows;
  for (const std::string& name : registry.names()) {
    rows.emplace_back(name, registry.Get(name).description());
  }
  return rows;
}

bool PrintList(const cli::ParsedOptions& options, cli::Console& console) {
  if (!options.Has("list")) return false;
  const std::string what = options.Text("list");
  Rows rows;
  if (what == "formats") rows = RegistryRows(BuiltinFormats());
  if (what == "rules") rows = RegistryRows(BuiltinCalibrators());
  if (what == "recipes") {
    for (const BuiltInRecipe& recipe : BuiltInRecipes()) {
      rows.emplace_back(recipe.name, recipe.description);
    }
  }
  if (what == "layouts") {
    for (const auto& [kind, name] : kEnumNames<LayoutKind>) {
      rows.emplace_back(name, LayoutOf(kind).description());
    }
  }
  if (what == "architecture") {
    for (const DescriptionKey& key : DescriptionKeys()) {
      std::string text = key.usual + (key.help.empty() ? "" : "; " + key.help);
      if (!key.choices.empty()) text += " (" + ExpectedText(key) + ")";
      rows.emplace_back(key.name, std::move(text));
    }
  }
  console.PrintNames(rows);
  return true;
}

std::string Generate(const std::string& /*kind: recipe*/) {
  const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
  return WriteRecipe(LoadConfig("inference", {}, {}, context), true);
}

}  // namespace

cli::Program CalibrateProgram() { return {CalibrateSpec(), RunJob, Generate, PrintList}; }

}  // namespace hif8
