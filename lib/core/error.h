// The one error type of the project.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace hif8 {

// Names the kind of a failure. The value is the process's exit code.
enum class ErrorCode {
  kGate = 1,          // the work was done, but a requested gate failed
  kUsage = 2,         // command line or configuration
  kModel = 3,         // model or data unreadable, invalid or unsupported
  kEnvironment = 4,   // I/O, disk full, memory, a missing engine
  kBug = 70,          // an internal invariant does not hold
  kInterrupted = 130  // SIGINT
};

// An error that a user can act on. `message` says what was expected and what was found, `hint` what
// to do about it (never empty: every maker takes one), `where` the file, tensor, or
// file:line:column (may be empty).
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, std::string hint, std::string where = {})
      : code_(code),
        message_(std::move(message)),
        hint_(std::move(hint)),
        where_(std::move(where)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  const std::string& where() const { return where_; }

  // Returns further errors found in the same go (configuration files report all of theirs at once).
  const std::vector<Error>& others() const { return others_; }
  void Add(Error other) { others_.push_back(std::move(other)); }

  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
  std::string hint_;
  std::string where_;
  std::vector<Error> others_;
};

inline Error UsageError(std::string message, std::string hint, std::string where = {}) {
  return {ErrorCode::kUsage, std::move(message), std::move(hint), std::move(where)};
}
inline Error ModelError(std::string message, std::string hint, std::string where = {}) {
  return {ErrorCode::kModel, std::move(message), std::move(hint), std::move(where)};
}
inline Error EnvironmentError(std::string message, std::string hint, std::string where = {}) {
  return {ErrorCode::kEnvironment, std::move(message), std::move(hint), std::move(where)};
}

// Makes the error of an invariant that does not hold, for which nobody but us can do anything.
inline Error BugError(std::string message, std::string where = {}) {
  return {ErrorCode::kBug, std::move(message),
          "report it with the command, the version (--version) and, if possible, the input",
          std::move(where)};
}

}  // namespace hif8
