#include "lib/model/safetensors/description.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <utility>

#include "lib/core/input_file.h"
#include "lib/core/suggest.h"
#include "lib/model/safetensors/builtin_descriptions.h"
#include "lib/yaml/yaml_text.h"

namespace hif8 {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 18;

class DescriptionReader {
 public:
  DescriptionReader(const Source& source, Diagnostics& diagnostics)
      : source_(source), diagnostics_(diagnostics) {}

  Description Read(const YAML::Node& root) {
    description_.source = source_.name;
    if (!root.IsMap()) {
      diagnostics_.Add(source_.name + ":1:1",
                       "expected a mapping of keys, found " + FoundText(root),
                       "a description starts with version: 1");
      return {};
    }
    bool versioned = false;
    ForEachKey(root, source_, diagnostics_, [&](const auto& key, const auto& node, const auto& at) {
      if (key == "version") {
        versioned = true;
        if (!IsPlainScalar(node) || node.Scalar() != "1") {
          diagnostics_.Add(at, "version: expected 1, found " + FoundText(node),
                           "this program reads descriptions of version 1");
        }
      } else if (key == "model_types") {
        description_.model_types = ReadNames(key, node, at);
      } else if (key == "prefixes") {
        description_.prefixes = ReadNames(key, node, at);
      } else if (key == "config") {
        if (!node.IsScalar()) return Wrong(key, "the name of an object", node, at);
        description_.config = node.Scalar();
      } else {
        ReadKey(key, node, at);
      }
    });
    if (!versioned) {
      diagnostics_.Add(source_.name + ":1:1", "the key 'version' is missing",
                       "start the description with version: 1");
    }
    if (description_.model_types.empty()) {
      diagnostics_.Add(source_.name + ":1:1", "the key 'model_types' is missing",
                       "write model_types: [name], as config.json has it");
    }
    return std::move(description_);
  }

 private:
  void Wrong(const std::string& key, const std::string& expected, const YAML::Node& node,
             const std::string& where) {
    diagnostics_.Add(where, key + ": expected " + expected + ", found " + FoundText(node),
                     "the vocabulary is in docs/bring-your-own-model.md");
  }

  std::vector<std::string> ReadNames(const std::string& key, const YAML::Node& node,
                                     const std::string& where) {
    std::vector<std::string> names;
    bool good = node.IsSequence() && node.size() > 0;
    for (size_t i = 0; good && i < node.size(); ++i) {
      good = node[i].IsScalar();
      if (good) names.push_back(node[i].Scalar());
    }
    if (!good) Wrong(key, "a list of names", node, where);
    return names;
  }

  static std::vector<std::string> KeysBelow(const std::string& prefix) {
    std::vector<std::string> names;
    if (prefix.empty()) names = {"version", "model_types", "prefixes", "config"};
    for (const DescriptionKey& key : DescriptionKeys()) {
      if (!key.name.starts_with(prefix)) continue;
      const std::string rest = key.name.substr(prefix.size());
      const std::string name = rest.substr(0, rest.find('.'));
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return names;
  }

  void ReadKey(const std::string& key, const YAML::Node& node, const std::string& where) {
    if (const DescriptionKey* known = FindDescriptionKey(key))
      return ReadValue(*known, node, where);
    const bool group =
        std::any_of(DescriptionKeys().begin(), DescriptionKeys().end(),
                    [&](const DescriptionKey& known) { return known.name.starts_with(key + "."); });
    if (!group) {
      const size_t dot = key.rfind('.');
      const std::string prefix = dot == std::string::npos ? "" : key.substr(0, dot + 1);
      diagnostics_.Add(where, "unknown key '" + Shortened(key) + "'",
                       SuggestionHint(key.substr(prefix.size()), KeysBelow(prefix)));
    } else if (!node.IsMap()) {
      Wrong(key, "a mapping", node, where);
    } else {
      ForEachKey(node, source_, diagnostics_,
                 [&](const auto& name, const auto& value, const auto& at) {
                   ReadKey(key + "." + name, value, at);
                 });
    }
  }

  void ReadValue(const DescriptionKey& key, const YAML::Node& node, const std::string& key_at) {
    const std::string where = node.Mark().line >= 0 ? source_.At(node.Mark()) : key_at;
    if (!node.IsScalar()) return Wrong(key.name, ExpectedText(key), node, where);
    const std::string& text = node.Scalar();
    const bool constant = text.find_first_of("$(|") == std::string::npos;
    const auto& choices = key.choices;
    if (key.kind == KeyKind::kChoice && constant &&
        std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return diagnostics_.Add(
          where, key.name + ": expected " + ExpectedText(key) + ", found '" + text + "'",
          SuggestionHint(text, choices));
    }
    try {
      description_.values[key.name] = Expression::Parse(text, where);
    } catch (const Error& error) {
      diagnostics_.Add(error);
    }
  }

  const Source& source_;
  Diagnostics& diagnostics_;
  Description description_;
};

}  // namespace

std::string ExpectedText(const DescriptionKey& key) {
  switch (key.kind) {
    case KeyKind::kNumber:
      return "a number";
    case KeyKind::kInteger:
      return "an integer from 0";
    case KeyKind::kSize:
      return "an integer from 1";
    case KeyKind::kBool:
      return "true or false";
    case KeyKind::kBlocks:
      return "true or false, or a list of them with an entry for every block";
    case KeyKind::kBlockTypes:
      return "a word, or a list of words with an entry for every block";
    case KeyKind::kName:
      return "a name";
    case KeyKind::kChoice: {
      std::string text = "one of ";
      for (const std::string& choice : key.choices) {
        text += (&choice == key.choices.data() ? "" : ", ") + choice;
      }
      return text;
    }
  }
  return {};
}

Description ParseDescription(std::string_view yaml, const std::string& source_name) {
  const Source source{source_name, true};
  Diagnostics diagnostics;
  Description description;
  YAML::Node root;
  if (yaml.size() > kMaxBytes) {
    diagnostics.Add(source_name + ":1:1", "a file of " + std::to_string(yaml.size()) + " bytes",
                    "descriptions are at most 256 KiB of YAML");
  } else if (ParseYaml(std::string(yaml), "description", source, diagnostics, &root)) {
    description = DescriptionReader(source, diagnostics).Read(root);
  }
  diagnostics.ThrowIfAny();
  return description;
}

Description ReadDescription(const std::filesystem::path& file) {
  return ParseDescription(ReadFile(file), file.string());
}

std::span<const Description> BuiltinDescriptions() {
  static const std::vector<Description> descriptions = [] {
    std::vector<Description> list;
    for (const auto& [name, text] : kBuiltinDescriptionTexts) {
      list.push_back(ParseDescription(text, std::string(name)));
    }
    return list;
  }();
  return descriptions;
}

std::string KnownModelTypes() {
  std::string names;
  for (const Description& description : BuiltinDescriptions()) {
    for (const std::string& type : description.model_types) {
      names += (names.empty() ? "" : ", ") + type;
    }
  }
  return names;
}

}  // namespace hif8
