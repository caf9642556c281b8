#include "lib/model/tokenizer/text_data.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/core/line_reader.h"
#include "lib/core/npy.h"
#include "lib/model/tokenizer/json_view.h"
#include "lib/model/tokenizer/tokenizer.h"

namespace hif8 {
namespace {

using Ids = std::vector<int32_t>;

constexpr size_t kShortest = 2;  // a single token predicts nothing

// Collects ids and cuts them.
class Sequences {
 public:
  explicit Sequences(const TextDataOptions& options) : options_(options) {}

  bool full() const { return options_.samples > 0 && cut_.size() >= options_.samples; }

  // Goes on where the last one ended.
  void Join(const Ids& ids) {
    for (const int32_t id : ids) {
      open_.push_back(id);
      if (open_.size() == options_.sequence_length) Cut();
      if (full()) return;
    }
  }
  // Ends the sequence that is open.
  void Cut() {
    if (open_.size() >= kShortest && !full()) cut_.push_back(std::move(open_));
    open_.clear();
  }
  std::vector<Ids> Take() {
    Cut();
    return std::move(cut_);
  }

 private:
  const TextDataOptions& options_;
  Ids open_;
  std::vector<Ids> cut_;
};

// Throws unless id is a token of the vocabulary. `place` completes "...: the id 7".
void CheckId(int64_t id, const TextDataOptions& options, size_t position, const std::string& sample,
             const std::string& where) {
  const bool inside = id >= 0 && id <= INT32_MAX &&
                      (options.vocab_size == 0 || static_cast<size_t>(id) < options.vocab_size);
  if (inside) return;
  const std::string limit =
      std::to_string(options.vocab_size > 0 ? options.vocab_size - 1 : size_t{INT32_MAX});
  throw ModelError("expected token ids of 0 to " + limit + ", found " + std::to_string(id) +
                       " in " + sample + " at position " + std::to_string(position) +
                       " (counted from 0)",
                   "the data must have been made with this model's tokenizer", where);
}

class Documents {
 public:
  explicit Documents(const TextDataOptions& options) : options_(options) {}

  // `where` goes into errors: the file, and the line where there are lines.
  Ids Encode(std::string_view document, const std::string& where) {
    if (!tokenizer_) tokenizer_ = Tokenizer::Load(options_.tokenizer_dir);
    Ids ids;
    try {
      ids = tokenizer_->Encode(document);
    } catch (const Error& error) {
      if (!error.where().empty()) throw;
      throw Error(error.code(), error.message(), error.hint(), where);
    }
    for (size_t i = 0; i < ids.size(); ++i)
      CheckId(ids[i], options_, i, "the tokenized text", where);
    return ids;
  }

 private:
  const TextDataOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

void ReadText(const std::filesystem::path& path, const TextDataOptions& options, Sequences* out) {
  out->Join(Documents(options).Encode(LineReader(path).Rest(), path.string()));
}

Ids ReadIds(const JsonView& list, const TextDataOptions& options, const std::string& sample,
            const std::string& where) {
  Ids ids;
  if (!list.IsArray()) throw list.Fail("expected a list of token ids");
  for (const nlohmann::json& item : list.raw()) {
    if (!item.is_number_integer()) {
      const std::string found = item.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
      throw list.Fail("expected whole numbers, found " + found.substr(0, 40) + " at position " +
                      std::to_string(ids.size()));
    }
    const bool huge = item.is_number_unsigned() && item.get<uint64_t>() > INT64_MAX;
    CheckId(huge ? INT64_MAX : item.get<int64_t>(), options, ids.size(), sample, where);
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

// Takes objects with `text` or `input_ids`, of one kind.
class Objects {
 public:
  Objects(const TextDataOptions& options, Sequences* out)
      : options_(options), documents_(options), out_(out) {}

  void Add(const nlohmann::json& object, const std::string& where) {
    CheckInterrupt();
    const JsonView view(object, where);
    const std::optional<JsonView> ids = view.Find("input_ids");
    const std::optional<JsonView> document = view.Find("text");
    if (!ids && !document) {
      for (const char* chat : {"messages", "conversations"}) {
        if (!view.Find(chat)) continue;
        throw view.Fail(std::string("expected 'input_ids' or 'text', found '") + chat + "'",
                        "chat templates are not run here: give what the tokenizer's "
                        "apply_chat_template makes, as text or token ids");
      }
      throw view.Fail("expected 'input_ids' or 'text', found neither");
    }
    if (has_ids_ && *has_ids_ != ids.has_value()) {
      throw view.Fail("expected the same kind of data everywhere, found text and input_ids",
                      "put text and token ids into files of their own");
    }
    has_ids_ = ids.has_value();
    if (ids) {
      out_->Join(ReadIds(*ids, options_, "sample " + std::to_string(sample_), where));
      out_->Cut();
    } else {
      out_->Join(documents_.Encode(document->String(), where));
    }
    ++sample_;
  }

 private:
  const TextDataOptions& options_;
  Documents documents_;
  Sequences* out_;
  std::optional<bool> has_ids_;
  size_t sample_ = 0;
};

void ReadJsonLines(const std::filesystem::path& path, const TextDataOptions& options,
                   Sequences* out) {
  LineReader lines(path);
  Objects objects(options, out);
  for (size_t line = 1; !out->full(); ++line) {
    const std::optional<std::string_view> text = lines.Next();
    if (!text) return;
    if (text->find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = path.string() + ":" + std::to_string(line);
    objects.Add(ParseJson(*text, where), where);
  }
}

// A list of such objects, or one of them.
void ReadJson(const std::filesystem::path& path, const TextDataOptions& options, Sequences* out) {
  const nlohmann::json document = ParseJson(LineReader(path).Rest(), path.string());
  Objects objects(options, out);
  if (!document.is_array()) return objects.Add(document, path.string());
  for (size_t i = 0; i < document.size() && !out->full(); ++i) {
    objects.Add(document[i], path.string() + "#/" + std::to_string(i));
  }
}

template <typename T>
int64_t Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  if constexpr (sizeof(T) == 8 && std::is_unsigned_v<T>) {
    return static_cast<int64_t>(std::min<T>(value, INT64_MAX));
  }
  return static_cast<int64_t>(value);
}

using Loader = int64_t (*)(const std::byte*);

// Nothing for types that are no integers.
Loader IntegerLoader(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return &Load<uint8_t>;
    case DType::kI8:
      return &Load<int8_t>;
    case DType::kU16:
      return &Load<uint16_t>;
    case DType::kI16:
      return &Load<int16_t>;
    case DType::kU32:
      return &Load<uint32_t>;
    case DType::kI32:
      return &Load<int32_t>;
    case DType::kU64:
      return &Load<uint64_t>;
    case DType::kI64:
      return &Load<int64_t>;
    default:
      return nullptr;
  }
}

void ReadArray(const std::filesystem::path& path, const TextDataOptions& options, Sequences* out) {
  const Tensor tensor = ReadNpy(path);
  const TensorView& view = tensor.view;
  const Loader load = IntegerLoader(view.dtype);
  const size_t rank = view.shape.size();
  if (load == nullptr || rank < 1 || rank > 2) {
    throw ModelError("expected token ids, integers of shape [N, T] or [T], found " +
                         std::string(DTypeName(view.dtype)) + " " + ShapeText(view.shape),
                     "save the ids as int32 or int64 with one row per sample", path.string());
  }
  const size_t samples = rank == 2 ? static_cast<size_t>(view.shape[0]) : 1;
  const auto length = static_cast<size_t>(view.shape.back());
  const size_t item = DTypeSize(view.dtype);
  for (size_t sample = 0; sample < samples && length > 0 && !out->full(); ++sample) {
    Ids ids(length);
    for (size_t i = 0; i < length; ++i) {
      const int64_t id = load(view.data + (sample * length + i) * item);
      CheckId(id, options, i, "sample " + std::to_string(sample), path.string());
      ids[i] = static_cast<int32_t>(id);
    }
    out->Join(ids);
    out->Cut();
  }
}

}  // namespace

std::vector<std::vector<int32_t>> LoadTokenSequences(const std::filesystem::path& path,
                                                     const TextDataOptions& options) {
  if (options.sequence_length < kShortest) {
    throw UsageError("expected a sequence length of at least 2, found " +
                         std::to_string(options.sequence_length),
                     "set data.sequence_length to 2 or more");
  }
  Sequences sequences(options);
  const std::string last = path.extension().string();
  const bool compressed = last == ".gz" || last == ".zst";
  const std::string extension = compressed ? path.stem().extension().string() : last;
  if (extension == ".txt") {
    ReadText(path, options, &sequences);
  } else if (extension == ".jsonl") {
    ReadJsonLines(path, options, &sequences);
  } else if (extension == ".json") {
    ReadJson(path, options, &sequences);
  } else if (extension == ".npy" && !compressed) {
    ReadArray(path, options, &sequences);
  } else {
    throw ModelError(
        "expected a .txt, .jsonl, .json or .npy file for a language model, the text also "
        "compressed (.gz, .zst), found '" +
            last + "'",
        "name the file after what is in it", path.string());
  }
  std::vector<Ids> cut = sequences.Take();
  if (cut.empty()) {
    throw ModelError("expected at least one sequence of 2 tokens, found none", "give more text",
                     path.string());
  }
  return cut;
}

}  // namespace hif8
