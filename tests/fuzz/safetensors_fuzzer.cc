// A safetensors file: its header, read as a part of a checkpoint, as a model to compare and as
// calibration data. The input is the header's text; the file is made of it, with a length and data
// that fit, unless a first line "raw" says that what follows is the whole file.
#include "lib/model/safetensors/safetensors_file.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/readers.h"

HIF8_FUZZ_FORM(kJson)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hif8;
  constexpr std::string_view kRaw = "raw\n";
  const std::string_view text = AsText(data, size);
  const std::filesystem::path path =
      WriteFuzzFile("x.safetensors", text.starts_with(kRaw) ? std::string(text.substr(kRaw.size()))
                                                            : SafetensorsBytes(text));
  RunFuzzed([&] { SafetensorsFile::Open(path); });
  RunFuzzed([&] { ReadStored(path); });
  RunFuzzed([&] { ReadCheckpoint(path); });
  return 0;
}
