#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tests/fuzz/mutate_forms.h"

namespace hif8 {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kDeepest = 150;  // printing a document recurses

size_t Depth(std::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return deepest;
}

void Collect(Json* value, std::vector<Json*>* values) {
  values->push_back(value);
  if (value->is_structured()) {
    for (Json& child : *value) Collect(&child, values);
  }
}

Json Unusual(Dice* dice) {
  const std::array<Json, 24> values = {nullptr,
                                       true,
                                       false,
                                       0,
                                       -1,
                                       1,
                                       2,
                                       127,
                                       128,
                                       65536,
                                       INT32_MAX,
                                       INT32_MIN,
                                       INT64_MAX,
                                       INT64_MIN,
                                       UINT64_MAX,
                                       int64_t{1} << 62,
                                       0.5,
                                       -0.0,
                                       1e308,
                                       1e-320,
                                       "",
                                       "*",
                                       Json::array(),
                                       Json::object()};
  return values[dice->Below(values.size())];
}

Json ChangedNumber(const Json& value, Dice* dice) {
  if (value.is_number_float()) {
    const double x = value.get<double>();
    const std::array<double, 4> near = {-x, x * 2, x / 2, x + 1};
    return near[dice->Below(near.size())];
  }
  const auto x = value.get<uint64_t>();  // of negative numbers too, which wrap
  const std::array<uint64_t, 6> near = {x + 1, x - 1, x * 2,
                                        x / 2, 0 - x, x ^ (uint64_t{1} << dice->Below(64))};
  return static_cast<int64_t>(near[dice->Below(near.size())]);
}

// Removes, doubles or renames a member, or exchanges two of them.
void ChangeMembers(Json* value, Dice* dice) {
  const auto member = [&] {
    auto at = value->begin();
    for (size_t i = dice->Below(value->size()); i > 0; --i) ++at;
    return at;
  };
  const auto at = member();
  const auto other = member();
  switch (dice->Below(4)) {
    case 0:
      value->erase(at);
      break;
    case 1:
      std::swap(*at, *other);
      break;
    case 2:
      if (value->is_array()) {
        value->insert(at, Json(*other));
      } else {
        (*value)[MutateBytes(at.key())] = Json(*other);
      }
      break;
    default:
      if (value->is_object()) {
        Json kept = *at;
        value->erase(at);
        (*value)[MutateBytes("")] = std::move(kept);
      } else {
        for (size_t i = dice->Below(5); i > 0; --i) value->push_back(Json(value->front()));
      }
  }
}

}  // namespace

std::string MutateJson(const std::string& text, Dice* dice) {
  if (Depth(text) > kDeepest) return MutateBytes(text);
  Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return MutateBytes(text);
  std::vector<Json*> values;
  Collect(&document, &values);
  Json* value = values[dice->Below(values.size())];
  const size_t what = dice->Below(8);
  if (what == 0) {
    *value = Unusual(dice);
  } else if (what == 1) {
    *value = Json(*values[dice->Below(values.size())]);
  } else if (what == 2) {
    *value = Json::array({*value});
  } else if (value->is_structured() && !value->empty()) {
    ChangeMembers(value, dice);
  } else if (value->is_string()) {
    *value = MutateBytes(value->get<std::string>());
  } else if (value->is_number()) {
    *value = ChangedNumber(*value, dice);
  } else {
    *value = Unusual(dice);
  }
  return document.dump(-1, ' ', false, Json::error_handler_t::ignore);
}

}  // namespace hif8
