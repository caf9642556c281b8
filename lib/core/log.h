// Where the libraries say what they do: they never print, the program injects a sink.
#pragma once

#include <cstdint>
#include <string_view>

namespace hif8 {

class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Debug(std::string_view /*message*/) {}
  virtual void Info(std::string_view /*message*/) {}
  virtual void Warn(std::string_view /*message*/) {}
  // Progress of a named stage: `done` of `total` units (total 0: unknown). Called often; the sink
  // decides what to show.
  virtual void Progress(std::string_view /*stage*/, uint64_t /*done*/, uint64_t /*total*/) {}
};

// Returns a sink that drops everything.
LogSink& NullLog();

}  // namespace hif8
