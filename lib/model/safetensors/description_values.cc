#include "lib/model/safetensors/description_values.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/suggest.h"
#include "lib/model/safetensors/rope.h"

namespace hif8 {
namespace {

// No model has dimensions near this; products of two of them fit in 64 bits.
constexpr int64_t kMaxDimension = int64_t{1} << 28;
constexpr int kDeepest = 16;

const std::map<std::string, Expression, std::less<>>& UsualValues() {
  static const auto values = [] {
    std::map<std::string, Expression, std::less<>> map;
    for (const DescriptionKey& key : DescriptionKeys()) {
      map.emplace(key.name, Expression::Parse(key.usual, "the vocabulary"));
    }
    return map;
  }();
  return values;
}

}  // namespace

DescriptionValues::DescriptionValues(const Description& description, const ModelConfig& config)
    : description_(description), whole_(config), config_(config) {
  if (!description.config.empty() && config.Has(description.config)) {
    config_ = config.Object(description.config);
  }
  scope_.config = [this](std::string_view key) { return Lookup(key); };
  scope_.is_key = [](std::string_view word) { return FindDescriptionKey(word) != nullptr; };
  scope_.key = [this](std::string_view word) { return Value(word); };
}

// Some keys stand in the whole document although the others have an object of their own, and the
// settings of RoPE in one that has changed its name.
ConfigValue DescriptionValues::Lookup(std::string_view key) const {
  ConfigValue value = config_.Value(key);
  if (value.missing()) value = whole_.Value(key);
  if (value.missing()) value = RopeSettings(config_).Value(key);
  return value;
}

const Expression& DescriptionValues::ExpressionOf(std::string_view key) const {
  const auto own = description_.values.find(std::string(key));
  return own != description_.values.end() ? own->second : UsualValues().find(key)->second;
}

void DescriptionValues::Fail(std::string_view key, const std::string& problem) const {
  const Expression& expression = ExpressionOf(key);
  std::string name(key);
  if (expression.text() != key) name += " (" + expression.text() + ")";
  throw ModelError(
      name + ": " + problem,
      "weights alone can be quantized with --recipe weight-only; what the key means is said "
      "by " +
          description_.source,
      config_.where());
}

ConfigValue DescriptionValues::Value(std::string_view key) {
  if (depth_ >= kDeepest) Fail(key, "the value refers to itself");
  ++depth_;
  ConfigValue value = ExpressionOf(key).Evaluate(scope_);
  --depth_;
  return value;
}

double DescriptionValues::Number(std::string_view key) {
  const ConfigValue value = Value(key);
  const bool single = value.items.size() == 1 && !value.list;
  const double* number = single ? std::get_if<double>(&value.items.front()) : nullptr;
  if (number == nullptr || !std::isfinite(*number)) {
    Fail(key, "expected " + ExpectedText(*FindDescriptionKey(key)) + ", found " + value.Text());
  }
  return *number;
}

int64_t DescriptionValues::Integer(std::string_view key) {
  const double number = Number(key);
  const int64_t least = FindDescriptionKey(key)->kind == KeyKind::kSize ? 1 : 0;
  if (number != std::floor(number) || number < static_cast<double>(least) ||
      number > static_cast<double>(kMaxDimension)) {
    Fail(key, "expected an integer from " + std::to_string(least) + " to " +
                  std::to_string(kMaxDimension) + ", found " + Value(key).Text());
  }
  return static_cast<int64_t>(number);
}

std::string DescriptionValues::Name(std::string_view key) const {
  const std::string& text = ExpressionOf(key).text();
  return text == "none" ? std::string() : text;
}

std::vector<bool> DescriptionValues::Blocks(std::string_view key) {
  const ConfigValue value = Value(key);
  const auto blocks = static_cast<size_t>(scope_.blocks);
  if (value.missing() || (value.list && value.items.size() != blocks)) {
    Fail(key, "expected an entry for each of " + std::to_string(blocks) + " blocks, found " +
                  value.Text());
  }
  std::vector<bool> flags;
  for (size_t i = 0; i < blocks; ++i) {
    const auto* number = std::get_if<double>(&value.items[value.list ? i : 0]);
    if (number == nullptr) Fail(key, "expected true or false, found words");
    flags.push_back(*number != 0);
  }
  return flags;
}

std::string DescriptionValues::ChoiceText(std::string_view key) {
  const ConfigValue value = Value(key);
  const std::vector<std::string>& choices = FindDescriptionKey(key)->choices;
  const auto* text = value.missing() ? nullptr : std::get_if<std::string>(&value.items.front());
  if (text == nullptr || std::find(choices.begin(), choices.end(), *text) == choices.end()) {
    Fail(key, "expected " + ExpectedText(*FindDescriptionKey(key)) + ", found " + value.Text());
  }
  return *text;
}

}  // namespace hif8
