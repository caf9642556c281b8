#include "lib/quant/calibration_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/number_text.h"
#include "lib/core/suggest.h"

namespace hif8 {
namespace {

constexpr int kVersion = 1;

void EmitText(YAML::Emitter& out, const char* key, const std::string& text) {
  out << YAML::Key << key << YAML::Value << YAML::DoubleQuoted << text;
}

void EmitInput(YAML::Emitter& out, const std::string& tensor, const ActivationScale& scale) {
  const ScaleChoice& choice = scale.choice;
  out << YAML::BeginMap;
  EmitText(out, "tensor", tensor);
  out << YAML::Key << "scale" << YAML::Value << ShortestText(choice.scale);
  out << YAML::Key << "rule" << YAML::Value << scale.rule;
  out << YAML::Key << "target" << YAML::Value << ShortestText(choice.target);
  out << YAML::Key << "reference" << YAML::Value << ShortestText(choice.reference);
  out << YAML::Key << "amax" << YAML::Value << ShortestText(choice.amax);
  out << YAML::Key << "samples" << YAML::Value << scale.samples;
  if (!choice.note.empty()) EmitText(out, "note", choice.note);
  out << YAML::EndMap;
}

void EmitLayer(YAML::Emitter& out, const CalibratedLayer& layer) {
  out << YAML::BeginMap;
  EmitText(out, "layer", layer.layer);
  if (!layer.inputs.empty()) {
    out << YAML::Key << "inputs" << YAML::Value << YAML::BeginSeq;
    for (const auto& [tensor, scale] : layer.inputs) EmitInput(out, tensor, scale);
    out << YAML::EndSeq;
  }
  if (!layer.weight.empty()) {
    out << YAML::Key << "weight" << YAML::Value << YAML::BeginMap;
    EmitText(out, "tensor", layer.weight);
    out << YAML::Key << "rule" << YAML::Value << layer.weight_rule;
    out << YAML::Key << "scales_hash" << YAML::Value << layer.weight_hash;
    out << YAML::EndMap;
  }
  out << YAML::EndMap;
}

std::string Where(const std::string& file, const YAML::Mark& mark) {
  if (mark.is_null()) return file;
  return file + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
}

// Reads fields of one file; every error says where.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  [[noreturn]] void Fail(const YAML::Node& at, const std::string& message) const {
    throw UsageError(message, "calibration files are written by hif8-calibrate as calibration.yaml",
                     Where(file_, at.Mark()));
  }

  YAML::Node Field(const YAML::Node& map, const char* key, bool required = true) const {
    if (!map.IsMap()) Fail(map, std::string("expected a mapping with the key '") + key + "'");
    const YAML::Node value = map[key];
    if (!value && required) Fail(map, std::string("expected the key '") + key + "', found none");
    return value;
  }

  std::string Text(const YAML::Node& map, const char* key) const {
    const YAML::Node value = Field(map, key);
    if (!value.IsScalar()) Fail(value, std::string("'") + key + "' must be a single value");
    return value.Scalar();
  }

  template <typename T>
  T Number(const YAML::Node& map, const char* key) const {
    const std::string text = Text(map, key);
    T number{};
    const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) {
      Fail(map[key], std::string("'") + key + "' must be a number, found '" + text + "'");
    }
    return number;
  }

  void CheckKeys(const YAML::Node& map, std::vector<std::string> known) const {
    for (const auto& entry : map) {
      const std::string key = entry.first.Scalar();
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      throw UsageError("unknown key '" + key + "'", SuggestionHint(key, known),
                       Where(file_, entry.first.Mark()));
    }
  }

  // The entries of an optional list.
  std::vector<YAML::Node> List(const YAML::Node& map, const char* key) const {
    const YAML::Node list = Field(map, key, false);
    if (!list) return {};
    if (!list.IsSequence()) Fail(list, std::string("'") + key + "' must be a list");
    return {list.begin(), list.end()};
  }

  CalibratedLayer Layer(const YAML::Node& node) const {
    CalibratedLayer layer;
    layer.layer = Text(node, "layer");
    CheckKeys(node, {"layer", "inputs", "weight"});
    for (const YAML::Node& input : List(node, "inputs")) layer.inputs.push_back(Input(input));
    if (const YAML::Node weight = Field(node, "weight", false)) {
      layer.weight = Text(weight, "tensor");
      layer.weight_rule = Text(weight, "rule");
      layer.weight_hash = Text(weight, "scales_hash");
    }
    return layer;
  }

 private:
  std::pair<std::string, ActivationScale> Input(const YAML::Node& node) const {
    ActivationScale scale;
    const std::string tensor = Text(node, "tensor");
    CheckKeys(node, {"tensor", "scale", "rule", "target", "reference", "amax", "samples", "note"});
    ScaleChoice& choice = scale.choice;
    choice.scale = Number<float>(node, "scale");
    if (!std::isnormal(choice.scale) || choice.scale < 0) {
      Fail(node["scale"],
           "'scale' must be a normal positive fp32 number, found '" + node["scale"].Scalar() + "'");
    }
    choice.target = Number<float>(node, "target");
    choice.reference = Number<float>(node, "reference");
    choice.amax = Number<float>(node, "amax");
    scale.rule = Text(node, "rule");
    scale.samples = Number<uint64_t>(node, "samples");
    if (Field(node, "note", false)) choice.note = Text(node, "note");
    return {tensor, scale};
  }

  std::string file_;
};

}  // namespace

std::map<std::string, ActivationScale> Calibration::ActivationScales() const {
  std::map<std::string, ActivationScale> scales;
  std::map<std::string, std::string> first_layer;
  for (const CalibratedLayer& layer : layers) {
    for (const auto& [tensor, scale] : layer.inputs) {
      const auto [at, added] = scales.emplace(tensor, scale);
      if (added) {
        first_layer[tensor] = layer.layer;
      } else if (at->second.choice.scale != scale.choice.scale) {
        throw UsageError("layers '" + first_layer[tensor] + "' and '" + layer.layer +
                             "' read the same tensor '" + tensor + "' but have different scales (" +
                             ShortestText(at->second.choice.scale) + " and " +
                             ShortestText(scale.choice.scale) + ")",
                         "a tensor has one scale: edit both entries alike");
      }
    }
  }
  return scales;
}

std::string FormatCalibration(const Calibration& calibration) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  out << YAML::Key << "version" << YAML::Value << kVersion;
  out << YAML::Key << "model" << YAML::Value << YAML::BeginMap;
  EmitText(out, "files", calibration.model.files);
  EmitText(out, "hash", calibration.model.hash);
  out << YAML::EndMap;
  out << YAML::Key << "data" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "samples" << YAML::Value << calibration.samples;
  out << YAML::Key << "synthetic" << YAML::Value << calibration.synthetic;
  out << YAML::EndMap;
  out << YAML::Key << "layers" << YAML::Value << YAML::BeginSeq;
  for (const CalibratedLayer& layer : calibration.layers) EmitLayer(out, layer);
  out << YAML::EndSeq;
  if (!calibration.unobserved.empty()) {
    out << YAML::Key << "unobserved" << YAML::Value << YAML::BeginSeq;
    for (const std::string& name : calibration.unobserved) out << YAML::DoubleQuoted << name;
    out << YAML::EndSeq;
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

Calibration ParseCalibration(std::string_view text, const std::string& file) {
  try {
    const Reader reader(file);
    const YAML::Node root = YAML::Load(std::string(text));
    if (reader.Number<int>(root, "version") != kVersion) {
      reader.Fail(root["version"], "expected version " + std::to_string(kVersion) + ", found " +
                                       root["version"].Scalar());
    }
    reader.CheckKeys(root, {"version", "model", "data", "layers", "unobserved"});
    Calibration calibration;
    const YAML::Node model = reader.Field(root, "model");
    calibration.model.files = reader.Text(model, "files");
    calibration.model.hash = reader.Text(model, "hash");
    const YAML::Node data = reader.Field(root, "data");
    calibration.samples = reader.Number<uint64_t>(data, "samples");
    calibration.synthetic = reader.Text(data, "synthetic") == "true";
    reader.Field(root, "layers");
    for (const YAML::Node& layer : reader.List(root, "layers")) {
      calibration.layers.push_back(reader.Layer(layer));
    }
    for (const YAML::Node& name : reader.List(root, "unobserved")) {
      if (!name.IsScalar()) reader.Fail(name, "expected the name of a layer");
      calibration.unobserved.push_back(name.Scalar());
    }
    return calibration;
  } catch (const YAML::Exception& error) {
    throw UsageError("not valid YAML: " + error.msg,
                     "correct the file there, or let hif8-calibrate write it again",
                     Where(file, error.mark));
  }
}

}  // namespace hif8
