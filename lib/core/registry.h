// A table of named things, filled explicitly (a static library drops static initialisers).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/suggest.h"

namespace hif8 {

template <typename T>
class Registry {
 public:
  // `kind` names the things in errors: "number format", "scale rule".
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  void Add(std::string name, std::shared_ptr<const T> item) {
    names_.push_back(std::move(name));
    items_.push_back(std::move(item));
  }

  // Returns the item of that name, or null.
  const T* Find(std::string_view name) const {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return items_[i].get();
    }
    return nullptr;
  }

  // Returns the item of that name; a usage error that suggests or lists the known names otherwise.
  const T& Get(std::string_view name) const {
    if (const T* item = Find(name)) return *item;
    throw UsageError("unknown " + kind_ + " '" + std::string(name) + "'",
                     SuggestionHint(name, names_));
  }

  const std::vector<std::string>& names() const { return names_; }

 private:
  std::string kind_;
  std::vector<std::string> names_;
  std::vector<std::shared_ptr<const T>> items_;
};

}  // namespace hif8
