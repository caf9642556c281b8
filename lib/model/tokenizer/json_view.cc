#include "lib/model/tokenizer/json_view.h"

#include <limits>

namespace hif8 {
namespace {

using Json = nlohmann::json;

// Documents nest a few levels; a hostile one must not exhaust the stack.
constexpr int kMaxDepth = 100;

}  // namespace

Json ParseJson(std::string_view text, const std::string& where) {
  try {
    bool deep = false;
    const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t, Json&) {
      deep = deep || depth > kMaxDepth;
      return !deep;
    };
    Json document = Json::parse(text, watch);
    if (deep)
      throw ModelError("expected JSON of at most 100 levels, found more",
                       "get the file again from where the model came", where);
    return document;
  } catch (const Json::exception& error) {
    throw ModelError(std::string("not valid JSON: ") + error.what(),
                     "the file is truncated or damaged", where);
  }
}

JsonView JsonView::Get(const std::string& key) const {
  if (!IsObject()) throw Expected("an object");
  const auto at = value_->find(key);
  if (at == value_->end()) throw Fail("expected the key '" + key + "', found none");
  return {*at, file_, place_.empty() ? key : place_ + "." + key};
}

std::optional<JsonView> JsonView::Find(const std::string& key) const {
  if (!IsObject()) throw Expected("an object");
  const auto at = value_->find(key);
  if (at == value_->end() || at->is_null()) return std::nullopt;
  return Get(key);
}

std::vector<std::pair<std::string, JsonView>> JsonView::Members() const {
  if (!IsObject()) throw Expected("an object");
  std::vector<std::pair<std::string, JsonView>> members;
  for (const auto& item : value_->items()) members.emplace_back(item.key(), Get(item.key()));
  return members;
}

std::vector<JsonView> JsonView::Items() const {
  if (!IsArray()) throw Expected("a list");
  std::vector<JsonView> items;
  items.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    items.push_back(JsonView((*value_)[i], file_, place_ + "[" + std::to_string(i) + "]"));
  }
  return items;
}

const std::string& JsonView::String() const {
  if (!IsString()) throw Expected("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonView::Bool() const {
  if (!value_->is_boolean()) throw Expected("true or false");
  return value_->get<bool>();
}

int32_t JsonView::Id() const {
  const bool fits =
      value_->is_number_unsigned() &&
      value_->get<uint64_t>() < static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
  if (!fits) throw Expected("a whole number of 0 to 2^31 - 2");
  return value_->get<int32_t>();
}

bool JsonView::BoolOr(const std::string& key, bool missing) const {
  const std::optional<JsonView> value = Find(key);
  return value ? value->Bool() : missing;
}

Error JsonView::Fail(const std::string& message, const std::string& hint) const {
  return ModelError(place_.empty() ? message : place_ + ": " + message, hint, file_);
}

Error JsonView::Expected(std::string_view what) const {
  std::string found = value_->is_string() || value_->is_number() || value_->is_boolean()
                          ? value_->dump(-1, ' ', false, Json::error_handler_t::replace)
                          : value_->type_name();
  if (found.size() > 60) found = found.substr(0, 57) + "...";
  return Fail("expected " + std::string(what) + ", found " + found);
}

}  // namespace hif8
