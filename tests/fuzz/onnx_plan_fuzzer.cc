// An ONNX graph from its file to the plan that --dry-run prints, with every kind of layer asked
// for.
#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/log.h"
#include "lib/model/onnx/onnx_model.h"
#include "lib/quant/plan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

HIF8_FUZZ_FORM(kProtobuf)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const hif8::ParseContext context{hif8::BuiltinFormats(), hif8::BuiltinCalibrators()};
  static const hif8::QuantConfig config =
      hif8::ParseRecipe("version: 1\nattention: true\nembeddings: true\n", "fuzz recipe", context);
  hif8::RunFuzzed([&] {
    const auto path = hif8::WriteFuzzFile("model.onnx", hif8::AsText(data, size));
    const auto model = hif8::OnnxModel::Load(path, hif8::NullLog());
    for (size_t i = 0; i < model->weights().size(); ++i) model->ReadWeight(static_cast<int>(i));
    hif8::MakePlan(*model, config, context);
  });
  return 0;
}
