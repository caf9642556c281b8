// tokenizer.model with tokenizer_config.json, and a document that they are applied to.
#include "lib/model/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

HIF8_FUZZ_FORM(kFiles)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hif8;
  std::vector<InputFile> files = SplitFiles(AsText(data, size));
  std::erase_if(files, [](const InputFile& file) { return file.name == "tokenizer.json"; });
  RunFuzzed([&] {
    const auto tokenizer = Tokenizer::Load(WriteFuzzFiles(files));
    for (const InputFile& file : files) {
      if (!file.name.ends_with(".txt")) continue;
      RunFuzzed([&] {
        for (const int32_t id : tokenizer->Encode(file.bytes)) {
          Require(id >= 0 && static_cast<size_t>(id) < tokenizer->vocab_size(),
                  "ids lie in the vocabulary");
        }
      });
    }
  });
  return 0;
}
