#include "lib/runtime/token_data.h"

#include <cstring>
#include <memory>
#include <sstream>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/npy.h"
#include "lib/core/output_dir.h"
#include "lib/model/safetensors/json_text.h"
#include "lib/model/tokenizer/tokenizer.h"

namespace hif8 {
namespace {

template <typename T>
int64_t Load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return static_cast<int64_t>(value);
}

int64_t IntegerAt(const TensorView& view, size_t index) {
  const std::byte* p = view.data + index * DTypeSize(view.dtype);
  switch (view.dtype) {
    case DType::kU8:
      return Load<uint8_t>(p);
    case DType::kI8:
      return Load<int8_t>(p);
    case DType::kU16:
      return Load<uint16_t>(p);
    case DType::kI16:
      return Load<int16_t>(p);
    case DType::kU32:
      return Load<uint32_t>(p);
    case DType::kI32:
      return Load<int32_t>(p);
    case DType::kU64:
      return Load<uint64_t>(p);
    default:
      return Load<int64_t>(p);
  }
}

bool IsInteger(DType dtype) {
  return !IsFloat(dtype) && dtype != DType::kBool && dtype != DType::kF8E4M3 &&
         dtype != DType::kF8E5M2;
}

TokenData ReadIds(const std::filesystem::path& path) {
  const Tensor tensor = ReadNpy(path);
  const Shape& shape = tensor.view.shape;
  if (!IsInteger(tensor.view.dtype) || shape.empty() || shape.size() > 2) {
    throw ModelError("expected token ids, integers of shape [samples, length] or [length], found " +
                         std::string(DTypeName(tensor.view.dtype)) + " " + ShapeText(shape),
                     "", path.string());
  }
  const size_t count = shape.size() == 2 ? static_cast<size_t>(shape[0]) : 1;
  const auto length = static_cast<size_t>(shape.back());
  TokenData data;
  data.samples.resize(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t t = 0; t < length; ++t) {
      data.samples[i].push_back(IntegerAt(tensor.view, i * length + t));
    }
  }
  return data;
}

// Documents as one stream of tokens, cut into samples.
class TextStream {
 public:
  explicit TextStream(const TokenDataOptions& options) : options_(options) {}

  void AddDocument(const std::string& text, const std::string& place) {
    if (tokenizer_ == nullptr) tokenizer_ = Tokenizer::Load(options_.tokenizer_folder);
    try {
      for (const int32_t id : tokenizer_->Encode(text)) Add(id);
    } catch (const Error& error) {
      throw Error(error.code(), error.message(), error.hint(), place);
    }
  }

  bool full() const { return options_.samples > 0 && data_.size() >= options_.samples; }

  std::vector<std::vector<int64_t>> Finish() {
    if (sample_.size() >= 2 && !full()) data_.push_back(std::move(sample_));
    return std::move(data_);
  }

 private:
  void Add(int64_t id) {
    sample_.push_back(id);
    if (sample_.size() < options_.sequence_length) return;
    data_.push_back(std::move(sample_));
    sample_.clear();
  }

  const TokenDataOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<int64_t> sample_;
  std::vector<std::vector<int64_t>> data_;
};

std::vector<int64_t> IdsOf(const nlohmann::json& list, const std::string& place) {
  std::vector<int64_t> ids;
  for (const nlohmann::json& id : list) {
    if (!id.is_number_integer()) {
      throw ModelError("'input_ids': expected integers, found " + id.dump().substr(0, 40), "",
                       place);
    }
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

TokenData ReadJsonLines(const std::filesystem::path& path, const TokenDataOptions& options) {
  TokenData data;
  TextStream text(options);
  bool any_text = false;
  std::istringstream lines(ReadFile(path));
  std::string line;
  const auto full = [&] { return options.samples > 0 && data.samples.size() >= options.samples; };
  for (int number = 1; !full() && !text.full() && std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = path.string() + ":" + std::to_string(number);
    const auto json = ParseJson<nlohmann::json>(line, place);
    const bool has_ids = json.is_object() && json.contains("input_ids");
    const bool has_text = json.is_object() && !has_ids && json.contains("text");
    if ((!has_ids || !json["input_ids"].is_array()) && (!has_text || !json["text"].is_string())) {
      throw ModelError("expected an object with 'input_ids' (a list) or 'text' (a string), found " +
                           line.substr(0, 60),
                       "", place);
    }
    if (has_ids ? any_text : !data.samples.empty()) {
      throw ModelError("lines with 'input_ids' and lines with 'text' do not go together",
                       "split them into two files", place);
    }
    if (has_ids) {
      data.samples.push_back(IdsOf(json["input_ids"], place));
    } else {
      any_text = true;
      text.AddDocument(json["text"].get<std::string>(), place);
    }
  }
  if (any_text) data.samples = text.Finish();
  return data;
}

TokenData ReadText(const std::filesystem::path& path, const TokenDataOptions& options) {
  TextStream text(options);
  text.AddDocument(ReadFile(path), path.string());
  TokenData data;
  data.samples = text.Finish();
  return data;
}

}  // namespace

TokenData ReadTokenData(const std::filesystem::path& path, const TokenDataOptions& options) {
  const std::string extension = path.extension().string();
  TokenData data;
  if (extension == ".npy") {
    data = ReadIds(path);
  } else if (extension == ".jsonl") {
    data = ReadJsonLines(path, options);
  } else if (extension == ".txt") {
    data = ReadText(path, options);
  } else {
    throw ModelError("data of a language model: expected a .npy, .jsonl or .txt file",
                     "token ids as .npy [samples, length], or text", path.string());
  }
  data.source = path.string();
  if (options.samples > 0 && data.samples.size() > options.samples) {
    data.samples.resize(options.samples);
  }
  return data;
}

void CheckTokenIds(const TokenData& data, int64_t vocabulary) {
  if (data.samples.empty()) {
    throw ModelError("the data has no sample of at least two tokens", "give more text",
                     data.source);
  }
  for (size_t i = 0; i < data.samples.size(); ++i) {
    const std::vector<int64_t>& ids = data.samples[i];
    if (ids.empty()) {
      throw ModelError("sample " + std::to_string(i) + " has no tokens", "", data.source);
    }
    for (size_t t = 0; t < ids.size(); ++t) {
      if (ids[t] >= 0 && ids[t] < vocabulary) continue;
      throw ModelError("sample " + std::to_string(i) + ", position " + std::to_string(t) +
                           ": expected a token id from 0 to " + std::to_string(vocabulary - 1) +
                           ", found " + std::to_string(ids[t]),
                       "was the data made with the tokenizer of this model?", data.source);
    }
  }
}

}  // namespace hif8
