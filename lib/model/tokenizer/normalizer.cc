#include "lib/model/tokenizer/normalizer.h"

#include <unicode/errorcode.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "lib/model/tokenizer/pattern_config.h"
#include "lib/model/tokenizer/split_regex.h"
#include "lib/model/tokenizer/utf8.h"

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

bool IsChinese(char32_t c) {
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kBlocks = {{{0x4E00, 0x9FFF},
                                                                     {0x3400, 0x4DBF},
                                                                     {0x20000, 0x2A6DF},
                                                                     {0x2A700, 0x2B73F},
                                                                     {0x2B740, 0x2B81F},
                                                                     {0x2B920, 0x2CEAF},
                                                                     {0xF900, 0xFAFF},
                                                                     {0x2F800, 0x2FA1F}}};
  return std::any_of(kBlocks.begin(), kBlocks.end(),
                     [c](const auto& block) { return block.first <= c && c <= block.second; });
}

// Calls `take` for each character, which appends what becomes of it.
template <typename Take>
std::string MapCharacters(const std::string& text, const Take& take) {
  std::string mapped;
  mapped.reserve(text.size());
  for (size_t pos = 0; pos < text.size(); pos += Utf8Length(text[pos])) {
    take(Utf8Decode(text, pos), &mapped);
  }
  return mapped;
}

void CleanCharacter(char32_t c, std::string* out) {
  const auto point = static_cast<UChar32>(c);
  if (c == '\t' || c == '\n' || c == '\r' || u_isUWhiteSpace(point) != 0) {
    *out += " ";
    return;
  }
  const auto type = u_charType(point);
  const bool control =
      type == U_CONTROL_CHAR || type == U_FORMAT_CHAR || type == U_PRIVATE_USE_CHAR;
  if (!control && c != 0xFFFD) Utf8Append(c, out);
}

void LowerCharacter(char32_t c, std::string* out) {
  if (c == 0x130) {  // the only one that becomes two
    *out += "i\u0307";
    return;
  }
  Utf8Append(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), out);
}

// Of BERT: control characters go, spaces are one kind, ideographs are words, accents go, lower
// case.
Normalizer MakeBert(const JsonView& config) {
  const bool clean = config.BoolOr("clean_text", true);
  const bool chinese = config.BoolOr("handle_chinese_chars", true);
  const bool lowercase = config.BoolOr("lowercase", true);
  const bool strip = config.BoolOr("strip_accents", lowercase);
  const Normalizer decompose = MakeUnicode(config, "NFD");
  return [=](std::string text) {
    if (clean) text = MapCharacters(text, CleanCharacter);
    if (chinese) {
      text = MapCharacters(text, [](char32_t c, std::string* out) {
        const char* space = IsChinese(c) ? " " : "";
        *out += space;
        Utf8Append(c, out);
        *out += space;
      });
    }
    if (strip) {
      text = MapCharacters(decompose(std::move(text)), [](char32_t c, std::string* out) {
        if (u_charType(static_cast<UChar32>(c)) != U_NON_SPACING_MARK) Utf8Append(c, out);
      });
    }
    return lowercase ? MapCharacters(text, LowerCharacter) : text;
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
  if (type == "BertNormalizer") return MakeBert(*config);
  if (type == "Lowercase") {
    return [](const std::string& text) { return MapCharacters(text, LowerCharacter); };
  }
  if (type == "Prepend") return MakePrepend(*config);
  if (type == "Replace") return MakeReplace(*config);
  if (type == "Sequence") return MakeSequence(*config);
  throw RefuseComponent(
      *config, "normalizer", type,
      "BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence");
}

}  // namespace hif8
