// libhif8_onnxruntime.so: the native QuantizeDequantizeLinear of domain ai.hif8 (and of every other
// format's domain) for a user's own ONNX Runtime session.
//
//   C:       api->RegisterCustomOpsLibrary_V2(session_options, "libhif8_onnxruntime.so")
//   Python:  session_options.register_custom_ops_library("libhif8_onnxruntime.so")
//
// A session so prepared computes with it what it would otherwise compute with the function in the
// model file, bit for bit the same. Needs ONNX Runtime 1.19 or later.
#include <memory>
#include <string>

#include "formats/builtin.h"
#include "lib/runtime/custom_ops.h"

namespace hif8 {
namespace {

// The oldest engine whose operators may work in place.
constexpr uint32_t kOldestApi = 19;

// The newest API that both sides know.
const OrtApi* FindApi(const OrtApiBase* base, uint32_t* version) {
  for (*version = ORT_API_VERSION; *version >= kOldestApi; --*version) {
    if (const OrtApi* api = base->GetApi(*version)) return api;
  }
  return nullptr;
}

}  // namespace
}  // namespace hif8

// The entry point that ONNX Runtime looks for.
extern "C" __attribute__((visibility("default"))) OrtStatus* ORT_API_CALL
RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  uint32_t version = 0;
  const OrtApi* api = hif8::FindApi(base, &version);
  // Without an API there is no status to return either. The engine checks the session's operators
  // next and falls back on the function in the file.
  if (api == nullptr) return nullptr;
  Ort::InitApi(api);
  try {
    // Sessions refer to the operators as long as they live: they are never destroyed.
    static const hif8::CustomOps& operators = *[&] {
      auto made = std::make_unique<hif8::CustomOps>(version);
      const hif8::FormatRegistry& formats = hif8::BuiltinFormats();
      for (const std::string& name : formats.names()) {
        made->AddQuantizeDequantize("ai." + name, "QuantizeDequantizeLinear", formats.Get(name));
      }
      return made.release();
    }();
    operators.Register(options);
    return nullptr;
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  }
}
