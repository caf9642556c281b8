// One image, for models that want it in different layouts, types and sizes.
#include "lib/runtime/dataset.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/readers.h"

namespace {

void ReadAs(const char* name, const hif8::GraphValue& input, hif8::DataOptions options) {
  options.source = (hif8::FuzzDir() / name).string();
  const auto data = hif8::OpenDataset(options, std::span(&input, 1), hif8::NullLog());
  const hif8::DataRun run = data->Read(0);
  hif8::Touch(run.inputs.at("x").view);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hif8;
  using Layout = ImageOptions::Layout;
  using Channels = ImageOptions::Channels;
  WriteFuzzFile("x.png", AsText(data, size));
  RunFuzzed([] { ReadAs("x.png", {.name = "x", .shape = {1, 3, 24, 20}, .dim_names = {}}, {}); });
  RunFuzzed([] {
    ReadAs("x.png", {.name = "x", .dtype = DType::kU8, .shape = {-1, -1, -1, 1}, .dim_names = {}},
           {.image = {
                .height = 3, .width = 40, .layout = Layout::kNhwc, .channels = Channels::kGray}});
  });
  return 0;
}
