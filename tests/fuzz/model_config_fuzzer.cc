// config.json alone: what a family's decoder is made of, whichever family it names.
#include "lib/model/safetensors/model_config.h"

#include "lib/model/safetensors/architecture.h"
#include "lib/model/safetensors/network.h"
#include "lib/model/safetensors/source_quantization.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

HIF8_FUZZ_FORM(kJson)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hif8;
  const std::string text(AsText(data, size));
  RunFuzzed([&] {
    const ModelConfig config = ModelConfig::Parse(text, "config.json");
    RunFuzzed([&] { CheckSourceQuantization(config, ShardList()); });
    const Description* named = FindDescription(config);
    for (const Description& description : BuiltinDescriptions()) {
      if (named != nullptr && named != &description) continue;
      RunFuzzed([&] { MakeDecoderSpec(description, config); });
    }
  });
  return 0;
}
