// A recipe: parsed, written, parsed again, and applied to names of layers.
#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/quant/config_layers.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

HIF8_FUZZ_FORM(kLines)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hif8;
  static const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
  static const std::vector<std::string> layers = {"conv1", "model.layers.0.mlp.down_proj",
                                                  "model.layers.11.self_attn.q_proj", "/a b/c"};
  RunFuzzed([&] {
    const QuantConfig config = ParseRecipe(AsText(data, size), "recipe.yaml", context);
    for (const bool comments : {false, true}) {
      const std::string text = WriteRecipe(config, comments);
      const QuantConfig again = ParseRecipe(text, "again", context);
      Require(again == config, "a recipe is read back as it was written");
      Require(WriteRecipe(again, comments) == text, "and written again with the same bytes");
    }
    const LayerRules rules(config);
    for (const std::string& layer : layers) {
      rules.KeptBecause(std::span(&layer, 1));
      rules.Resolve(std::span(&layer, 1));
    }
    rules.RequireMatches(layers);
  });
  return 0;
}
