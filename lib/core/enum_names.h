// Names of enumerations' values, as recipes, options and files write them.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hif8 {

template <typename T, size_t n>
using EnumTable = std::array<std::pair<T, std::string_view>, n>;

// Lists every value of the enumeration T with its name. Specialized beside each enumeration that
// has names.
template <typename T>
inline constexpr EnumTable<T, 0> kEnumNames{};

// Returns the name of a value; empty for a value that is not in the table.
template <typename T>
constexpr std::string_view NameOf(T value) {
  for (const auto& [known, name] : kEnumNames<T>) {
    if (known == value) return name;
  }
  return {};
}

// Returns the value of that name, or nothing.
template <typename T>
constexpr std::optional<T> FromName(std::string_view name) {
  for (const auto& [value, known] : kEnumNames<T>) {
    if (known == name) return value;
  }
  return std::nullopt;
}

// Returns all names in the order of the table.
template <typename T>
std::vector<std::string> NamesOf() {
  std::vector<std::string> names;
  for (const auto& [value, name] : kEnumNames<T>) names.emplace_back(name);
  return names;
}

}  // namespace hif8
