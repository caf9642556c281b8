// Reads a JSON document that a user gave: every access says what it expects, and an error names the
// file and the place in it, "pre_tokenizer.pretokenizers[1].behavior".
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/core/error.h"

namespace hif8 {

// The hint of errors in files that other programs wrote.
inline constexpr const char* kDamaged =
    "correct the value there, or get the file again from where it came";

// Parses a whole file or text. Throws kModel with the position of a syntax error.
nlohmann::json ParseJson(std::string_view text, const std::string& where);

// A value in a document that outlives it.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string file)
      : value_(&value), file_(std::move(file)) {}

  bool IsNull() const { return value_->is_null(); }
  bool IsString() const { return value_->is_string(); }
  bool IsArray() const { return value_->is_array(); }
  bool IsObject() const { return value_->is_object(); }

  // Members of an object. Find: nothing where the key is missing or null.
  JsonView Get(const std::string& key) const;
  std::optional<JsonView> Find(const std::string& key) const;
  std::vector<std::pair<std::string, JsonView>> Members() const;
  std::vector<JsonView> Items() const;

  const std::string& String() const;
  bool Bool() const;
  // Returns a whole number of [0, 2^31): what a token id can be.
  int32_t Id() const;
  bool BoolOr(const std::string& key, bool missing) const;

  const std::string& file() const { return file_; }

  // kModel: "PLACE: MESSAGE", in the document's file.
  Error Fail(const std::string& message, const std::string& hint = kDamaged) const;

  const nlohmann::json& raw() const { return *value_; }

 private:
  JsonView(const nlohmann::json& value, std::string file, std::string place)
      : value_(&value), file_(std::move(file)), place_(std::move(place)) {}
  Error Expected(std::string_view what) const;

  const nlohmann::json* value_;
  std::string file_;
  std::string place_;
};

}  // namespace hif8
