// A checkpoint's folder: config.json, index, headers of its files (SafetensorsBytes() makes the
// files), and what a part says of itself. Opened, connected, planned, compared with itself, and its
// config.json written anew.
#include "lib/model/safetensors/checkpoint.h"

#include "lib/model/safetensors/checkpoint_part.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/readers.h"

HIF8_FUZZ_FORM(kFiles)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hif8;
  std::vector<InputFile> files = SplitFiles(AsText(data, size));
  for (InputFile& file : files) {
    if (file.name.ends_with(".safetensors")) file.bytes = SafetensorsBytes(file.bytes);
  }
  const std::filesystem::path folder = WriteFuzzFiles(files);
  RunFuzzed([&] { ReadCheckpoint(folder); });
  RunFuzzed([&] { ReadStored(folder); });
  for (const InputFile& file : files) {
    if (file.name != PartFile::kName) continue;
    RunFuzzed([&] {
      const PartFile part = ParsePartFile(file.bytes, file.name);
      Require(FormatPartFile(ParsePartFile(FormatPartFile(part), "again")) == FormatPartFile(part),
              "a part's file is read back as it was written");
    });
  }
  return 0;
}
