#include "lib/model/safetensors/model_config.h"

#include "lib/model/safetensors/json_text.h"

namespace hif8 {
namespace {

using Json = nlohmann::json;

const Json& JsonOf(const void* value) { return *static_cast<const Json*>(value); }

}  // namespace

ModelConfig ModelConfig::Parse(const std::string& text, const std::string& where) {
  auto document = std::make_shared<const Json>(ParseJson<Json>(text, where));
  if (!document->is_object())
    throw ModelError("expected a JSON object", "get config.json again from where the model came",
                     where);
  ModelConfig config;
  config.object_ = document.get();
  config.document_ = std::move(document);
  config.where_ = where;
  return config;
}

const void* ModelConfig::Find(std::string_view key) const {
  if (object_ == nullptr) return nullptr;
  const Json& object = JsonOf(object_);
  const auto it = object.find(std::string(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

void ModelConfig::Fail(std::string_view key, const std::string& expected) const {
  const void* value = Find(key);
  throw ModelError("'" + prefix_ + std::string(key) + "': expected " + expected + ", found " +
                       (value == nullptr ? "nothing" : JsonOf(value).dump().substr(0, 80)),
                   "correct the value, or get config.json again from where the model came", where_);
}

bool ModelConfig::Has(std::string_view key) const { return Find(key) != nullptr; }

std::vector<std::string> ModelConfig::Keys() const {
  std::vector<std::string> keys;
  if (empty()) return keys;
  for (const auto& [key, value] : JsonOf(object_).items()) keys.push_back(key);
  return keys;
}

int64_t ModelConfig::Integer(std::string_view key) const {
  const void* value = Find(key);
  if (value == nullptr || !JsonOf(value).is_number_integer()) Fail(key, "an integer");
  if (JsonOf(value).is_number_unsigned() && JsonOf(value).get<uint64_t>() > uint64_t{INT64_MAX}) {
    Fail(key, "a 64-bit integer");
  }
  return JsonOf(value).get<int64_t>();
}

int64_t ModelConfig::Integer(std::string_view key, int64_t fallback) const {
  return Has(key) ? Integer(key) : fallback;
}

double ModelConfig::Number(std::string_view key) const {
  const void* value = Find(key);
  if (value == nullptr || !JsonOf(value).is_number()) Fail(key, "a number");
  return JsonOf(value).get<double>();
}

double ModelConfig::Number(std::string_view key, double fallback) const {
  return Has(key) ? Number(key) : fallback;
}

bool ModelConfig::Bool(std::string_view key, bool fallback) const {
  const void* value = Find(key);
  if (value == nullptr) return fallback;
  if (!JsonOf(value).is_boolean()) Fail(key, "true or false");
  return JsonOf(value).get<bool>();
}

std::string ModelConfig::String(std::string_view key, const std::string& fallback) const {
  const void* value = Find(key);
  if (value == nullptr) return fallback;
  if (!JsonOf(value).is_string()) Fail(key, "a string");
  return JsonOf(value).get<std::string>();
}

std::vector<int64_t> ModelConfig::Integers(std::string_view key,
                                           const std::vector<int64_t>& fallback) const {
  const void* value = Find(key);
  if (value == nullptr) return fallback;
  if (!JsonOf(value).is_array()) Fail(key, "a list of integers");
  std::vector<int64_t> list;
  for (const Json& item : JsonOf(value)) {
    if (!item.is_number_integer()) Fail(key, "a list of integers");
    list.push_back(item.get<int64_t>());
  }
  return list;
}

std::vector<std::string> ModelConfig::Strings(std::string_view key) const {
  const void* value = Find(key);
  std::vector<std::string> list;
  if (value == nullptr) return list;
  if (!JsonOf(value).is_array()) Fail(key, "a list of strings");
  for (const Json& item : JsonOf(value)) {
    if (!item.is_string()) Fail(key, "a list of strings");
    list.push_back(item.get<std::string>());
  }
  return list;
}

std::vector<double> ModelConfig::Numbers(std::string_view key) const {
  const void* value = Find(key);
  std::vector<double> list;
  if (value == nullptr) return list;
  if (!JsonOf(value).is_array()) Fail(key, "a list of numbers");
  for (const Json& item : JsonOf(value)) {
    if (!item.is_number()) Fail(key, "a list of numbers");
    list.push_back(item.get<double>());
  }
  return list;
}

ConfigValue ModelConfig::Value(std::string_view path) const {
  ModelConfig object = *this;
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    const void* inner = object.Find(path.substr(0, dot));
    if (inner == nullptr || !JsonOf(inner).is_object()) return {};
    object = object.Object(path.substr(0, dot));
    path.remove_prefix(dot + 1);
  }
  const void* found = object.Find(path);
  ConfigValue result;
  if (found == nullptr) return result;
  const Json& value = JsonOf(found);
  result.list = value.is_array();
  const auto add = [&](const Json& item) {
    if (item.is_boolean()) result.items.emplace_back(item.get<bool>() ? 1.0 : 0.0);
    if (item.is_number()) result.items.emplace_back(item.get<double>());
    if (item.is_string()) result.items.emplace_back(item.get<std::string>());
  };
  if (result.list) {
    for (const Json& item : value) add(item);
  } else {
    add(value);
  }
  return result;
}

ModelConfig ModelConfig::Object(std::string_view key) const {
  const void* value = Find(key);
  ModelConfig config;
  config.where_ = where_;
  if (value == nullptr) return config;
  if (!JsonOf(value).is_object()) Fail(key, "an object");
  config.document_ = document_;
  config.object_ = value;
  config.prefix_ = prefix_ + std::string(key) + ".";
  return config;
}

}  // namespace hif8
