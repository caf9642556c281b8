// What ONNX Runtime says, made fit to be read by users. Internal to this module.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/runtime/ort_api.h"

namespace hif8 {

// Returns the error for a failed call. `what` was being done.
Error EngineError(const std::string& what, OrtErrorCode code, std::string_view message);

// Returns the message on one line, without source locations and stack traces.
std::string CleanMessage(std::string_view message);

// Passes warnings on to a sink, each once; what users can do nothing about goes to its debug level.
struct EngineLog {
  LogSink* sink = nullptr;
  void Write(OrtLoggingLevel severity, std::string_view message);

 private:
  std::mutex mutex_;  // the engine logs from its threads as well
  std::set<std::string> seen_;
};

}  // namespace hif8
