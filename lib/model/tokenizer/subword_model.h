// What turns one word into token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/model/tokenizer/json_view.h"

namespace hif8 {

class SubwordModel {
 public:
  virtual ~SubwordModel() = default;

  // Appends the ids of one word (a piece as the pre-tokenizer left it). May be called by several
  // threads.
  virtual void Encode(std::string_view word, std::vector<int32_t>* ids) const = 0;
  virtual std::optional<int32_t> Find(std::string_view token) const = 0;
  virtual int32_t largest_id() const = 0;
};

// Reads the `model` of tokenizer.json, BPE or WordPiece. Throws kModel for another type of model.
std::unique_ptr<SubwordModel> MakeSubwordModel(const JsonView& model);

}  // namespace hif8
