// A quantized ONNX graph, whoever wrote it, as hif8-report reads it: every tensor decoded, and
// compared with the original (the first file; without a second one the same file).
#include "formats/builtin.h"
#include "lib/core/log.h"
#include "lib/model/stored_model.h"
#include "lib/quant/compare_models.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

HIF8_FUZZ_FORM(kFiles)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto files = hif8::SplitFiles(hif8::AsText(data, size));
  if (files.empty()) return 0;
  hif8::RunFuzzed([&] {
    const auto first = hif8::WriteFuzzFile("a.onnx", files.front().bytes);
    const auto second = hif8::WriteFuzzFile("b.onnx", files.back().bytes);
    const hif8::FormatRegistry& formats = hif8::BuiltinFormats();
    const auto original = hif8::OpenStoredModel(first, formats);
    const auto quantized = hif8::OpenStoredModel(second, formats);
    hif8::CompareModels(*original, *quantized, formats, hif8::NullLog());
  });
  return 0;
}
