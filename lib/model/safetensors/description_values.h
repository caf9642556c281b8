// The values of a description for one config.json. Internal to this module.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/enum_names.h"
#include "lib/model/safetensors/description.h"
#include "lib/model/safetensors/model_config.h"

namespace hif8 {

// Evaluates keys of the vocabulary. Errors are kModel and name key and value.
class DescriptionValues {
 public:
  // The arguments must outlive the object.
  DescriptionValues(const Description& description, const ModelConfig& config);

  double Number(std::string_view key);
  int64_t Integer(std::string_view key);
  bool Bool(std::string_view key) { return Number(key) != 0; }
  std::string Name(std::string_view key) const;  // empty where it is "none"
  std::vector<bool> Blocks(std::string_view key);
  template <typename T>
  T Choice(std::string_view key) {
    return *FromName<T>(ChoiceText(key));
  }

  // Lists have an entry for each block from here on.
  void SetBlocks(int64_t blocks) { scope_.blocks = blocks; }
  // Returns the object of config.json that has the decoder's keys.
  const ModelConfig& config() const { return config_; }
  [[noreturn]] void Fail(std::string_view key, const std::string& problem) const;

 private:
  ConfigValue Value(std::string_view key);
  ConfigValue Lookup(std::string_view key) const;
  const Expression& ExpressionOf(std::string_view key) const;
  std::string ChoiceText(std::string_view key);

  const Description& description_;
  const ModelConfig& whole_;
  ModelConfig config_;
  ExpressionScope scope_;
  int depth_ = 0;
};

}  // namespace hif8
