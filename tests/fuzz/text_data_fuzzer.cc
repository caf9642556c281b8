// Data of language models: text, JSON lines and arrays of token ids, with a tokenizer of a few
// letters.
#include "lib/model/tokenizer/text_data.h"

#include <algorithm>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

HIF8_FUZZ_FORM(kFiles)

namespace {

constexpr const char* kTokenizer = R"({"model": {"type": "BPE",
  "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "<unk>": 4, "abc": 5}, "merges": ["a b", "ab c"],
  "unk_token": "<unk>"}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hif8;
  WriteFuzzFile("tokenizer/tokenizer.json", kTokenizer);
  for (const InputFile& file : SplitFiles(AsText(data, size))) {
    const std::string name = std::filesystem::path(file.name).filename().string();
    const size_t dot = std::min(name.find('.'), name.size());
    const std::filesystem::path path = WriteFuzzFile("data" + name.substr(dot, 32), file.bytes);
    for (const size_t length : {2, 5, 512}) {
      RunFuzzed([&] {
        const TextDataOptions options = {
            .tokenizer_dir = FuzzDir() / "tokenizer", .sequence_length = length, .vocab_size = 6};
        for (const auto& ids : LoadTokenSequences(path, options)) {
          Require(ids.size() >= 2 && ids.size() <= length, "sequences have 2 to `length` ids");
          for (const int32_t id : ids) Require(id >= 0 && id < 6, "ids lie in the vocabulary");
        }
      });
    }
  }
  return 0;
}
