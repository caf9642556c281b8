#include <string>

#include "lib/quant/config.h"
#include "lib/quant/config_params.h"

namespace hif8 {
namespace {

// The groups of a key: "data.image.size" -> "data", "data.image".
std::vector<std::string> GroupsOf(const std::string& key) {
  std::vector<std::string> groups;
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    groups.push_back(key.substr(0, dot));
  }
  return groups;
}

std::string LastPart(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string OverridesText(const QuantConfig& config) {
  if (config.overrides.empty()) return "overrides: []\n";
  std::string text = "overrides:\n";
  for (const Override& entry : config.overrides) {
    text += "  - match: " + QuotedText(entry.pattern.match) + "\n";
    if (entry.pattern.optional) text += "    optional: true\n";
    std::string group;
    for (const ParamSetting& setting : entry.settings) {
      const std::string operand = GroupsOf(setting.key).front();
      if (operand != group) text += (group.empty() ? "    " : "}\n    ") + operand + ": {";
      if (operand == group) text += ", ";
      group = operand;
      text += LastPart(setting.key) + ": " + ValueText(*FindParam(setting.key), setting.value);
    }
    if (!group.empty()) text += "}\n";
  }
  return text;
}

}  // namespace

std::string WriteRecipe(const QuantConfig& config, bool comments) {
  std::string text = comments ? "# Every key of a recipe, with its default.\n"
                              : "# A complete recipe: --recipe with this file repeats the run.\n";
  text += "version: 1\n";
  std::vector<std::string> open;
  for (const Param& param : RecipeParams()) {
    if (param.input_only && !comments) continue;
    const std::vector<std::string> groups = GroupsOf(param.key);
    for (size_t i = 0; i < groups.size(); ++i) {
      if (i < open.size() && open[i] == groups[i]) continue;
      const std::string indent(2 * i, ' ');
      if (comments) text += "\n" + indent + "# " + std::string(GroupHelp(groups[i])) + "\n";
      text += indent + LastPart(groups[i]) + ":\n";
    }
    open = groups;
    const std::string indent(2 * groups.size(), ' ');
    if (comments) {
      if (groups.empty()) text += "\n";
      text += indent + "# " + param.help + ": " + param.Expected() + "\n";
    }
    if (param.input_only) {
      text += indent + "# " + LastPart(param.key) + ": 11\n";
    } else {
      text += indent + LastPart(param.key) + ": " + ValueText(param, param.get(config)) + "\n";
    }
  }
  if (comments) {
    text +=
        "\n# Settings for single layers, later ones win: a list of\n"
        "#   - {match: 'regex', weights: {...}, activations: {...}}\n"
        "# A pattern with optional: true may match nothing.\n";
  }
  return text + OverridesText(config);
}

std::string RecipeReference(const ParseContext& context) {
  const QuantConfig defaults = ParseRecipe("version: 1", "defaults", context);
  std::string text = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const Param& param : RecipeParams()) {
    const std::string value =
        param.input_only ? "" : "`" + ValueText(param, param.get(defaults)) + "`";
    text += "| `" + param.key + "` | " + ExpectedValues(param, context) + " | " + value + " | " +
            param.help + " |\n";
  }
  return text;
}

}  // namespace hif8
