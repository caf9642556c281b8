#include "lib/core/npy.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hif8::RunFuzzed([&] { hif8::ReadNpy(hif8::WriteFuzzFile("x.npy", hif8::AsText(data, size))); });
  return 0;
}
