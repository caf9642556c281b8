// A checkpoint's config.json: typed access with errors that name the key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/safetensors/expression.h"

namespace hif8 {

// An object of the document, or nothing (then every key is absent). Null counts as absent. A value
// of another type than asked for is a kModel error naming file and key.
class ModelConfig {
 public:
  ModelConfig() = default;
  // Throws kModel when the text is no JSON object or nests too deeply. `where` names the file.
  static ModelConfig Parse(const std::string& text, const std::string& where);

  bool empty() const { return object_ == nullptr; }
  bool Has(std::string_view key) const;
  std::vector<std::string> Keys() const;        // those with null too
  int64_t Integer(std::string_view key) const;  // required
  int64_t Integer(std::string_view key, int64_t fallback) const;
  double Number(std::string_view key) const;  // required
  double Number(std::string_view key, double fallback) const;
  bool Bool(std::string_view key, bool fallback) const;
  std::string String(std::string_view key, const std::string& fallback) const;
  std::vector<int64_t> Integers(std::string_view key, const std::vector<int64_t>& fallback) const;
  std::vector<std::string> Strings(std::string_view key) const;  // empty when absent
  std::vector<double> Numbers(std::string_view key) const;       // empty when absent
  ModelConfig Object(std::string_view key) const;                // empty when absent
  // Returns a word, a number or a list of them at "key" or "object.key"; missing for anything else.
  // True is 1.
  ConfigValue Value(std::string_view path) const;
  const std::string& where() const { return where_; }

 private:
  const void* Find(std::string_view key) const;  // a JSON value or null
  [[noreturn]] void Fail(std::string_view key, const std::string& expected) const;

  std::shared_ptr<const void> document_;
  const void* object_ = nullptr;  // inside document_
  std::string where_;
  std::string prefix_;  // "rope_scaling." inside that object
};

}  // namespace hif8
