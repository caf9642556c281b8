#include "lib/runtime/session_messages.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hif8 {
namespace {

// Warnings about the engine's own business: what it removes, folds, reuses or places where.
constexpr std::array<std::string_view, 6> kNoise = {
    "Removing initializer",    "constant fold",          "appears in graph inputs",
    "nodes were not assigned", "Rerunning with verbose", "Expected shape from model"};

constexpr size_t kMaxDistinctMessages = 100;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Cuts "/path/to/file.cc:123 " from the front, and "Status Class::Function(arguments) " after it.
void CutLocation(std::string* text) {
  for (const std::string_view suffix : {".cc:", ".h:", ".cpp:"}) {
    const size_t at = text->find(suffix);
    if (at == std::string::npos) continue;
    const size_t start = text->find_last_of(" \n", at) + 1;  // npos + 1 == 0
    size_t end = text->find(' ', at);
    if (end == std::string::npos) continue;
    ++end;
    // The function's name, when one follows: up to its argument list, which may be nested.
    const size_t open = text->find('(', end);
    if (open != std::string::npos && Contains(text->substr(end, open - end), "::")) {
      int depth = 0;
      size_t close = open;
      for (; close < text->size(); ++close) {
        if ((*text)[close] == '(') ++depth;
        if ((*text)[close] == ')' && --depth == 0) break;
      }
      if (close < text->size()) end = std::min(close + 2, text->size());
      if (text->compare(end, 6, "const ") == 0) end += 6;
    }
    text->erase(start, end - start);
  }
}

// "Non-zero status code returned while running Conv node. Name:'c1' Status Message: why"
// becomes "Conv node 'c1': why".
void ShortenNodePrefix(std::string* text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kParts = {
      {{"Non-zero status code returned while running ", ""},
       {" node. Name:'", " node '"},
       {"' Status Message: ", "': "}}};
  for (const auto& [from, to] : kParts) {
    for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size()) {
      text->replace(at, from.size(), to);
    }
  }
}

}  // namespace

std::string CleanMessage(std::string_view message) {
  std::string text(message.substr(0, message.find("\nStacktrace:")));
  CutLocation(&text);
  ShortenNodePrefix(&text);
  for (const std::string_view prefix :
       {"Load model from  failed:", "Exception during initialization: ", "Exception caught: "}) {
    if (text.starts_with(prefix)) text.erase(0, prefix.size());
  }
  std::string line;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

Error EngineError(const std::string& what, OrtErrorCode code, std::string_view message) {
  const std::string text = what + ": " + CleanMessage(message);
  if (Contains(message, "bad_alloc") || Contains(message, "Failed to allocate memory") ||
      Contains(message, "bad allocation")) {
    return EnvironmentError(text, "the model needs more memory than there is");
  }
  if (code == ORT_NOT_IMPLEMENTED || Contains(message, "is not a registered function/op") ||
      Contains(message, "No Op registered for")) {
    return ModelError(text, "ONNX Runtime " + std::string(OrtGetApiBase()->GetVersionString()) +
                                " does not have this operator for a CPU");
  }
  return ModelError(text, "check the model with onnx.checker.check_model, or export it again");
}

void EngineLog::Write(OrtLoggingLevel severity, std::string_view message) {
  const std::string text = "ONNX Runtime: " + CleanMessage(message);
  const std::scoped_lock lock(mutex_);
  if (seen_.size() >= kMaxDistinctMessages || !seen_.insert(text).second) return;
  const bool noise = std::any_of(kNoise.begin(), kNoise.end(),
                                 [&](std::string_view part) { return Contains(message, part); });
  // An error also comes back as a status, which is thrown.
  if (noise || severity != ORT_LOGGING_LEVEL_WARNING) {
    sink->Debug(text);
  } else {
    sink->Warn(text);
  }
}

}  // namespace hif8
