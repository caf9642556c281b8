// tokenizer.model, read and applied by the SentencePiece library (see plugin/sentencepiece_api.h).
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/input_file.h"
#include "lib/core/mapped_file.h"
#include "lib/core/sanitizer.h"
#include "lib/model/tokenizer/added_tokens.h"
#include "lib/model/tokenizer/backends.h"
#include "lib/model/tokenizer/json_view.h"
#include "lib/model/tokenizer/plugin/sentencepiece_api.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

struct Library {
  SentencePieceOpenFunction* open;
  SentencePieceEncodeFunction* encode;
  SentencePieceCloseFunction* close;
};

// True when a protobuf library was loaded with the program.
bool HasProtobuf() {
  const auto is_protobuf = [](dl_phdr_info* info, size_t, void*) {
    return std::string_view(info->dlpi_name).find("libprotobuf") != std::string_view::npos ? 1 : 0;
  };
  return ::dl_iterate_phdr(is_protobuf, nullptr) != 0;
}

// Opened once and kept. RTLD_DEEPBIND: the library's own protobuf comes before the program's.
const Library& OpenLibrary() {
  static const Library library = [] {
    const std::string hint = "give the data as token ids (.npy, or .jsonl with input_ids)";
    // The run time of sanitizers does not survive RTLD_DEEPBIND.
    if (kSanitizedBuild && HasProtobuf()) {
      throw EnvironmentError("tokenizer.model cannot be read in a build with sanitizers", hint);
    }
    constexpr int kScope = kSanitizedBuild ? 0 : RTLD_DEEPBIND;
    void* handle = ::dlopen(kHif8SentencePieceLibrary, RTLD_NOW | RTLD_LOCAL | kScope);
    if (handle == nullptr) {
      throw EnvironmentError("cannot load what reads tokenizer.model: " + std::string(::dlerror()),
                             "install the package libsentencepiece0, or " + hint);
    }
    const auto symbol = [&](const char* name) {
      void* address = ::dlsym(handle, name);
      if (address != nullptr) return address;
      throw EnvironmentError(std::string(kHif8SentencePieceLibrary) + " has no " + name,
                             "install the program again");
    };
    return Library{
        reinterpret_cast<SentencePieceOpenFunction*>(symbol("Hif8SentencePieceOpen")),
        reinterpret_cast<SentencePieceEncodeFunction*>(symbol("Hif8SentencePieceEncode")),
        reinterpret_cast<SentencePieceCloseFunction*>(symbol("Hif8SentencePieceClose"))};
  }();
  return library;
}

void SetMessage(void* context, const char* message, size_t size) {
  static_cast<std::string*>(context)->assign(message, size);
}

Error LibraryError(const std::string& message, const fs::path& file) {
  return ModelError("the SentencePiece library reports: " + message,
                    "the file is damaged or no SentencePiece model", file.string());
}

// A model that the library holds.
class Processor {
 public:
  explicit Processor(fs::path file) : file_(std::move(file)) {
    const std::shared_ptr<const MappedFile> mapped = MappedFile::Open(file_);
    const std::span<const std::byte> bytes = mapped->bytes();
    std::string message;
    if (!OpenLibrary().open(reinterpret_cast<const char*>(bytes.data()), bytes.size(), &model_,
                            &message, &SetMessage)) {
      throw LibraryError(message, file_);
    }
  }
  ~Processor() { OpenLibrary().close(model_.processor); }
  Processor(const Processor&) = delete;
  Processor& operator=(const Processor&) = delete;

  const Hif8SentencePiece& model() const { return model_; }

  void Encode(std::string_view text, std::vector<int32_t>* ids) const {
    struct Result {
      std::string message;
      std::vector<int32_t>* ids;
    } result{{}, ids};
    Hif8Ids* const receive = [](void* context, const int* values, size_t count) {
      std::vector<int32_t>* out = static_cast<Result*>(context)->ids;
      out->insert(out->end(), values, values + count);
    };
    Hif8Message* const fail = [](void* context, const char* message, size_t size) {
      static_cast<Result*>(context)->message.assign(message, size);
    };
    if (!OpenLibrary().encode(model_.processor, text.data(), text.size(), &result, receive, fail)) {
      throw LibraryError(result.message, file_);
    }
  }

 private:
  fs::path file_;
  Hif8SentencePiece model_{};
};

struct Settings {
  bool begin = true;
  bool end = false;
  std::vector<AddedToken> added;
};

AddedToken ReadEntry(const std::string& key, const JsonView& entry) {
  int32_t id = -1;
  const auto [rest, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || rest != key.data() + key.size() || id < 0) {
    throw entry.Fail("expected a token id as key, found '" + key + "'");
  }
  return ReadAddedToken(entry, id);
}

Settings ReadSettings(const fs::path& file) {
  Settings settings;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return settings;
  const nlohmann::json document = ParseJson(ReadFile(file), file.string());
  const JsonView view(document, file.string());
  settings.begin = view.BoolOr("add_bos_token", true);
  settings.end = view.BoolOr("add_eos_token", false);
  if (const std::optional<JsonView> added = view.Find("added_tokens_decoder")) {
    for (const auto& [key, entry] : added->Members()) {
      settings.added.push_back(ReadEntry(key, entry));
    }
  }
  return settings;
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(fs::path file, const Settings& settings)
      : processor_(std::move(file)), added_(settings.added) {
    const Hif8SentencePiece& model = processor_.model();
    vocab_size_ = static_cast<size_t>(std::max(model.piece_count, 0));
    for (const AddedToken& token : settings.added) {
      vocab_size_ = std::max(vocab_size_, static_cast<size_t>(token.id) + 1);
    }
    if (settings.begin) begin_ = model.begin_id;
    if (settings.end) end_ = model.end_id;
  }

  size_t vocab_size() const override { return vocab_size_; }

 private:
  std::vector<int32_t> EncodeText(std::string_view document,
                                  bool with_post_processor) const override {
    std::vector<int32_t> ids;
    if (with_post_processor && begin_ >= 0) ids.push_back(begin_);
    for (const AddedTokenFinder::Section& section : added_.Find(document)) {
      if (section.id) {
        ids.push_back(*section.id);
      } else {
        processor_.Encode(document.substr(section.begin, section.end - section.begin), &ids);
      }
    }
    if (with_post_processor && end_ >= 0) ids.push_back(end_);
    return ids;
  }

  Processor processor_;
  AddedTokenFinder added_;
  int32_t begin_ = -1;
  int32_t end_ = -1;
  size_t vocab_size_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> LoadSentencePiece(const fs::path& dir) {
  return std::make_unique<SentencePieceTokenizer>(dir / "tokenizer.model",
                                                  ReadSettings(dir / "tokenizer_config.json"));
}

}  // namespace hif8
