// calibration.yaml: parsed, written, parsed again.
#include "lib/quant/calibration_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

HIF8_FUZZ_FORM(kLines)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hif8;
  RunFuzzed([&] {
    const Calibration calibration = ParseCalibration(AsText(data, size), "calibration.yaml");
    const std::string text = FormatCalibration(calibration);
    Require(FormatCalibration(ParseCalibration(text, "again")) == text,
            "a calibration is read back as it was written");
    calibration.ActivationScales();
  });
  return 0;
}
