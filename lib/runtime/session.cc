#include "lib/runtime/session.h"

#include <onnxruntime_session_options_config_keys.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <new>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/core/parallel.h"
#include "lib/runtime/custom_ops.h"
#include "lib/runtime/ort_api.h"
#include "lib/runtime/session_messages.h"

namespace hif8 {
namespace {

// The engine's API, initialised once. All of ONNX Runtime is reached through here.
void InitEngine() {
  static const OrtApi* const api = [] {
    const OrtApi* found = OrtGetApiBase()->GetApi(ORT_API_VERSION);
    if (found != nullptr) Ort::InitApi(found);
    return found;
  }();
  if (api == nullptr) {
    throw EnvironmentError("ONNX Runtime " + std::string(OrtGetApiBase()->GetVersionString()) +
                               " was found, version 1." + std::to_string(ORT_API_VERSION) +
                               " or later is needed",
                           "install the ONNX Runtime that this program was built with");
  }
}

// ONNX Runtime's own telemetry would write a database and an identifier of the machine into the
// user's cache and send what it gathers; the variable is read when the environment is made, before
// its call can switch anything off.
Ort::Env* MakeEnvironment() {
  ::setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  auto* const env = new Ort::Env(
      ORT_LOGGING_LEVEL_FATAL, "calibration",
      [](void*, OrtLoggingLevel, const char*, const char*, const char*, const char*) {}, nullptr);
  env->DisableTelemetryEvents();
  return env;
}

// One environment for the process, never destroyed: sessions may live in objects that are.
Ort::Env& Environment() {
  static Ort::Env& env = *MakeEnvironment();
  return env;
}

// Debian 13's ONNX Runtime shares ONNX's table of operators with the ONNX library, and the first
// session of a process writes to std::cerr about every operator that is there already.
class SilentErrorStream {
 public:
  SilentErrorStream() : buffer_(std::cerr.rdbuf(nullptr)) {}
  ~SilentErrorStream() {
    std::cerr.rdbuf(buffer_);  // clears the state that writing to nowhere left
  }
  SilentErrorStream(const SilentErrorStream&) = delete;
  SilentErrorStream& operator=(const SilentErrorStream&) = delete;

 private:
  std::streambuf* buffer_;
};

// Runs `body`, which calls the engine, and turns what it throws into the project's errors.
template <typename Body>
auto Translated(const char* what, const Body& body) {
  try {
    return body();
  } catch (const Ort::Exception& error) {
    throw EngineError(what, error.GetOrtErrorCode(), error.what());
  } catch (const std::bad_alloc&) {
    throw EnvironmentError(std::string(what) + ": out of memory",
                           "free memory, or use fewer --threads");
  }
}

// The engine's message goes to the sink that the session was given, once each: some come with
// every run.
void ORT_API_CALL Log(void* log, OrtLoggingLevel severity, const char*, const char*, const char*,
                      const char* message) {
  static_cast<EngineLog*>(log)->Write(severity, message);
}

Ort::SessionOptions MakeOptions(const RunnableGraph& graph, const SessionOptions& options,
                                EngineLog* log) {
  Ort::SessionOptions ort;
  ort.SetIntraOpNumThreads(options.threads > 0 ? options.threads : Threads());
  ort.SetInterOpNumThreads(1);
  ort.SetExecutionMode(ORT_SEQUENTIAL);  // taps see tensors in order, one at a time
  ort.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
  // Memory patterns are kept for every shape that was ever seen.
  ort.DisableMemPattern();
  ort.SetDeterministicCompute(true);
  ort.AddConfigEntry(kOrtSessionOptionsConfigAllowIntraOpSpinning, options.alone ? "1" : "0");
  if (!graph.data_dir.empty()) {
    ort.AddConfigEntry(kOrtSessionOptionsModelExternalInitializersFileFolderPath,
                       graph.data_dir.c_str());
  }
  ort.SetLogSeverityLevel(ORT_LOGGING_LEVEL_WARNING);
  Ort::ThrowOnError(Ort::GetApi().SetUserLoggingFunction(ort, Log, log));
  return ort;
}

// The engine reads tensors in place: they must be aligned as their elements are.
Tensor Aligned(const Tensor& tensor) {
  const size_t alignment = DTypeSize(tensor.view.dtype);
  if (reinterpret_cast<uintptr_t>(tensor.view.data) % alignment == 0) return tensor;
  std::byte* data = nullptr;
  Tensor copy = Tensor::Allocate(tensor.view.dtype, tensor.view.shape, &data);
  std::copy_n(tensor.view.data, tensor.view.bytes(), data);
  return copy;
}

Tensor ToTensor(Ort::Value value) {
  Tensor tensor;
  if (!value.IsTensor() || !FromOrt(value.GetTensorTypeAndShapeInfo().GetElementType())) {
    return tensor;
  }
  auto owner = std::make_shared<Ort::Value>(std::move(value));
  tensor.view = ViewOf(owner->GetConst());
  tensor.owner = std::move(owner);
  return tensor;
}

}  // namespace

struct Session::Impl {
  TapSink* taps = nullptr;
  EngineLog log;
  CustomOps operators{ORT_API_VERSION};
  Ort::Session session{nullptr};
  Ort::MemoryInfo memory{nullptr};
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

Session::Session(const RunnableGraph& graph, const SessionOptions& options)
    : impl_(std::make_unique<Impl>()) {
  InitEngine();
  Translated("loading the model into ONNX Runtime", [&] {
    impl_->log.sink = options.log != nullptr ? options.log : &NullLog();
    impl_->taps = options.taps;
    impl_->operators.AddTaps();
    impl_->operators.AddGatedDeltaRule();
    for (const NativeOperator& native : options.operators) {
      const auto add = native.dynamic ? &CustomOps::AddDynamicQuantizeDequantize
                                      : &CustomOps::AddQuantizeDequantize;
      (impl_->operators.*add)(native.domain, native.name, *native.format);
    }
    Ort::SessionOptions ort = MakeOptions(graph, options, &impl_->log);
    // ONNX Runtime looks whether a domain of operators is known and then adds it to a table of the
    // process: two sessions that start at once would both add it, which is an error.
    static std::mutex starting;
    const std::scoped_lock lock(starting);
    impl_->operators.Register(ort);
    {
      const SilentErrorStream silent;
      impl_->session = Ort::Session(Environment(), graph.model.data(), graph.model.size(), ort);
    }
    impl_->memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    impl_->inputs = InputNames(impl_->session);
    impl_->outputs = OutputNames(impl_->session);
  });
}

Session::~Session() = default;

const std::vector<std::string>& Session::input_names() const { return impl_->inputs; }
const std::vector<std::string>& Session::output_names() const { return impl_->outputs; }

std::vector<Tensor> Session::Run(const NamedTensors& inputs, TapSink* taps) {
  CheckInterrupt();
  std::vector<const char*> input_names;
  std::vector<const char*> output_names;
  std::vector<Tensor> tensors;
  std::vector<Ort::Value> values;
  for (const std::string& name : impl_->inputs) {
    const auto found = inputs.find(name);
    if (found == inputs.end())
      throw ModelError("no data for the model's input '" + name + "'",
                       "give an array under that name");
    input_names.push_back(name.c_str());
    tensors.push_back(Aligned(found->second));
  }
  for (const std::string& name : impl_->outputs) output_names.push_back(name.c_str());
  TapRun run{.sink = taps != nullptr ? taps : impl_->taps};
  const TapRun::Scope scope(&run);
  return Translated("running the model", [&] {
    values.reserve(tensors.size());
    for (const Tensor& tensor : tensors) {
      const TensorView& view = tensor.view;
      values.push_back(Ort::Value::CreateTensor(impl_->memory, const_cast<std::byte*>(view.data),
                                                view.bytes(), view.shape.data(), view.shape.size(),
                                                ToOrt(view.dtype)));
    }
    std::vector<Ort::Value> results;
    try {
      results = impl_->session.Run(Ort::RunOptions(), input_names.data(), values.data(),
                                   values.size(), output_names.data(), output_names.size());
    } catch (const Ort::Exception&) {
      if (run.error) std::rethrow_exception(run.error);
      throw;
    }
    std::vector<Tensor> outputs;
    outputs.reserve(results.size());
    for (Ort::Value& value : results) outputs.push_back(ToTensor(std::move(value)));
    return outputs;
  });
}

std::vector<Tensor> RunConstants(const RunnableGraph& graph) { return Session(graph, {}).Run({}); }

std::string EngineVersion() {
  InitEngine();
  return OrtGetApiBase()->GetVersionString();
}

}  // namespace hif8
