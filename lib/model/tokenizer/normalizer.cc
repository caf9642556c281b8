#include "lib/model/tokenizer/normalizer.h"

#include <unicode/errorcode.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>

#include <array>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "lib/model/tokenizer/pattern_config.h"
#include "lib/model/tokenizer/split_regex.h"

namespace hif8 {
namespace {

Normalizer MakeUnicode(const JsonView& config, const std::string& form) {
  icu::ErrorCode status;
  const bool compatible = form.size() == 4;
  const UNormalization2Mode mode = form.back() == 'C' ? UNORM2_COMPOSE : UNORM2_DECOMPOSE;
  const icu::Normalizer2* normalizer =
      icu::Normalizer2::getInstance(nullptr, compatible ? "nfkc" : "nfc", mode, status);
  if (status.isFailure()) {
    throw EnvironmentError(std::string("ICU has no data for ") + form + ": " + status.errorName(),
                           "install the complete libicu package");
  }
  return [normalizer, file = config.file()](std::string text) {
    if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max() / 4)) {
      throw ModelError(
          "expected a document of at most 512 MiB, found " + std::to_string(text.size()) + " bytes",
          "split the text into several files or lines");
    }
    icu::ErrorCode error;
    const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
    if (normalizer->isNormalizedUTF8(piece, error) && error.isSuccess()) return text;
    std::string normalized;
    icu::StringByteSink<std::string> sink(&normalized);
    error.reset();
    normalizer->normalizeUTF8(0, piece, sink, nullptr, error);
    if (error.isFailure()) {
      throw EnvironmentError(std::string("ICU cannot normalize: ") + error.errorName(),
                             "install ICU's data, or write the data as token ids", file);
    }
    return normalized;
  };
}

Normalizer MakePrepend(const JsonView& config) {
  return [prefix = config.Get("prepend").String()](const std::string& text) {
    return text.empty() ? text : prefix + text;
  };
}

Normalizer MakeReplace(const JsonView& config) {
  const std::string content = config.Get("content").String();
  return [regex = MakePattern(config.Get("pattern")), content](const std::string& text) {
    std::string replaced;
    for (const MatchSpan& span : regex.Spans(text)) {
      replaced += span.matched ? std::string_view(content)
                               : std::string_view(text).substr(span.begin, span.end - span.begin);
    }
    return replaced;
  };
}

Normalizer MakeSequence(const JsonView& config) {
  std::vector<Normalizer> steps;
  for (const JsonView& item : config.Get("normalizers").Items()) {
    steps.push_back(MakeNormalizer(item));
  }
  return [steps = std::move(steps)](std::string text) {
    for (const Normalizer& step : steps) {
      if (step) text = step(std::move(text));
    }
    return text;
  };
}

}  // namespace

Normalizer MakeNormalizer(const std::optional<JsonView>& config) {
  if (!config || config->IsNull()) return nullptr;
  const std::string& type = config->Get("type").String();
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    return MakeUnicode(*config, type);
  }
  if (type == "Prepend") return MakePrepend(*config);
  if (type == "Replace") return MakeReplace(*config);
  if (type == "Sequence") return MakeSequence(*config);
  throw RefuseComponent(*config, "normalizer", type,
                        "NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence");
}

}  // namespace hif8
