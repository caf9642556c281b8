#include <yaml-cpp/yaml.h>

#include <filesystem>

#include "lib/core/error.h"
#include "lib/core/input_file.h"
#include "lib/core/suggest.h"
#include "lib/quant/config.h"
#include "lib/quant/config_reader.h"

namespace hif8 {
namespace {

constexpr size_t kMaxRecipeBytes = size_t{1} << 20;

// What is wrong with a whole document comes before what is wrong inside.
void ReadDocument(std::string_view yaml, const std::string& source_name,
                  const ParseContext& context, Diagnostics& diagnostics, ConfigBuilder& builder) {
  const Source source{source_name, true};
  const std::string start = source_name + ":1:1";
  if (yaml.size() > kMaxRecipeBytes) {
    diagnostics.Add(start, "a recipe of " + std::to_string(yaml.size()) + " bytes",
                    "recipes are at most 1 MiB of YAML");
    return;
  }
  YAML::Node root;
  if (!ParseYaml(std::string(yaml), "recipe", source, diagnostics, &root)) return;
  if (!root.IsMap() && !root.IsNull()) {
    diagnostics.Add(start, "expected a mapping of recipe keys, found " + FoundText(root),
                    "a recipe starts with version: 1");
    return;
  }
  RecipeReader reader(source, context, diagnostics);
  reader.ReadRoot(root);
  builder.Apply(reader.TakeLevel());
}

void ReadAssignment(const ConfigAssignment& assignment, const ParseContext& context,
                    Diagnostics& diagnostics, Level& level) {
  const Source source{assignment.origin, false};
  RecipeReader reader(source, context, diagnostics);
  if (assignment.mode == ConfigAssignment::Mode::kYaml) {
    YAML::Node value;
    if (!ParseYaml(assignment.text, "recipe", source, diagnostics, &value)) return;
    reader.ReadKey(assignment.key, value, source.name);
  } else {
    reader.ReadText(assignment.key, assignment.text,
                    assignment.mode == ConfigAssignment::Mode::kAppend);
  }
  level.Join(reader.TakeLevel());
}

void ReadAssignments(std::span<const ConfigAssignment> assignments, const ParseContext& context,
                     Diagnostics& diagnostics, ConfigBuilder& builder) {
  Level level;
  for (const ConfigAssignment& assignment : assignments) {
    ReadAssignment(assignment, context, diagnostics, level);
  }
  builder.Apply(std::move(level));
}

const BuiltInRecipe* FindBuiltIn(std::string_view name) {
  for (const BuiltInRecipe& recipe : BuiltInRecipes()) {
    if (recipe.name == name) return &recipe;
  }
  return nullptr;
}

std::string ReadRecipeFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    try {
      return ReadFile(path, kMaxSettingsBytes);
    } catch (const Error& error) {
      throw UsageError(error.message(), error.hint(), error.where());
    }
  }
  std::vector<std::string> names;
  std::string list;
  for (const BuiltInRecipe& recipe : BuiltInRecipes()) {
    names.emplace_back(recipe.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::vector<std::string> near = NearMatches(path, names, 1);
  const std::string hint = near.empty() ? "" : "did you mean '" + near[0] + "'? ";
  throw UsageError("no recipe '" + path + "': neither a built-in one nor a file",
                   hint + "built-in: " + list);
}

}  // namespace

QuantConfig ParseRecipe(std::string_view yaml, const std::string& source,
                        const ParseContext& context) {
  Diagnostics diagnostics;
  ConfigBuilder builder(context, diagnostics);
  ReadDocument(yaml, source, context, diagnostics, builder);
  return builder.Finish();
}

QuantConfig LoadConfig(const std::string& name_or_path, std::span<const ConfigAssignment> weaker,
                       std::span<const ConfigAssignment> stronger, const ParseContext& context) {
  Diagnostics diagnostics;
  ConfigBuilder builder(context, diagnostics);
  if (const BuiltInRecipe* recipe = FindBuiltIn(name_or_path)) {
    ReadDocument(recipe->text, "recipe " + name_or_path, context, diagnostics, builder);
  } else {
    ReadDocument(ReadRecipeFile(name_or_path), name_or_path, context, diagnostics, builder);
  }
  ReadAssignments(weaker, context, diagnostics, builder);
  ReadAssignments(stronger, context, diagnostics, builder);
  return builder.Finish();
}

ConfigAssignment ParseSetOption(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError("--set needs key=value, found '" + text + "'",
                     "for example --set weights.target=8");
  }
  return {text.substr(0, equals), text.substr(equals + 1), "--set " + text,
          ConfigAssignment::Mode::kYaml};
}

}  // namespace hif8
