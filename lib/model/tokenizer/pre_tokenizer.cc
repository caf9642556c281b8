#include "lib/model/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "lib/model/tokenizer/pattern_config.h"
#include "lib/model/tokenizer/split_regex.h"
#include "lib/model/tokenizer/utf8.h"

namespace hif8 {
namespace {

// What becomes of the matches of a pattern that splits.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior ParseBehavior(const JsonView& config) {
  static constexpr std::array<std::pair<std::string_view, Behavior>, 5> kNames = {
      {{"Removed", Behavior::kRemoved},
       {"Isolated", Behavior::kIsolated},
       {"MergedWithPrevious", Behavior::kMergedWithPrevious},
       {"MergedWithNext", Behavior::kMergedWithNext},
       {"Contiguous", Behavior::kContiguous}}};
  for (const auto& [name, behavior] : kNames) {
    if (config.String() == name) return behavior;
  }
  throw config.Fail("the behavior '" + config.String() +
                    "' is not supported; Removed, Isolated, MergedWithPrevious, MergedWithNext and "
                    "Contiguous are");
}

// Each match joins what is before it; of several in a row only the first does.
std::vector<MatchSpan> MergeWithPrevious(const std::vector<MatchSpan>& spans) {
  std::vector<MatchSpan> merged;
  bool after_match = false;
  for (const MatchSpan& span : spans) {
    if (span.matched && !after_match && !merged.empty()) {
      merged.back().end = span.end;
    } else {
      merged.push_back(span);
    }
    after_match = span.matched;
  }
  return merged;
}

std::vector<MatchSpan> MergeWithNext(const std::vector<MatchSpan>& spans) {
  std::vector<MatchSpan> merged;
  bool before_match = false;
  for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
    if (span->matched && !before_match && !merged.empty()) {
      merged.back().begin = span->begin;
    } else {
      merged.push_back(*span);
    }
    before_match = span->matched;
  }
  std::reverse(merged.begin(), merged.end());
  return merged;
}

std::vector<MatchSpan> MergeAlike(const std::vector<MatchSpan>& spans) {
  std::vector<MatchSpan> merged;
  for (const MatchSpan& span : spans) {
    if (!merged.empty() && merged.back().matched == span.matched) {
      merged.back().end = span.end;
    } else {
      merged.push_back(span);
    }
  }
  return merged;
}

std::vector<MatchSpan> Apply(Behavior behavior, std::vector<MatchSpan> spans) {
  switch (behavior) {
    case Behavior::kRemoved:
      std::erase_if(spans, [](const MatchSpan& span) { return span.matched; });
      return spans;
    case Behavior::kMergedWithPrevious:
      return MergeWithPrevious(spans);
    case Behavior::kMergedWithNext:
      return MergeWithNext(spans);
    case Behavior::kContiguous:
      return MergeAlike(spans);
    case Behavior::kIsolated:
      break;
  }
  return spans;
}

void SplitPiece(const TextPiece& piece, const SplitRegex& regex, Behavior behavior, bool invert,
                TextPieces* out) {
  std::vector<MatchSpan> spans = regex.Spans(piece.text);
  if (invert) {
    for (MatchSpan& span : spans) span.matched = !span.matched;
  }
  for (const MatchSpan& span : Apply(behavior, std::move(spans))) {
    if (span.begin == span.end) continue;
    out->push_back(
        {piece.text.substr(span.begin, span.end - span.begin), piece.first && span.begin == 0});
  }
}

PreTokenizer MakeSplit(SplitRegex regex, Behavior behavior, bool invert = false) {
  return [regex = std::move(regex), behavior, invert](const TextPieces& pieces) {
    TextPieces out;
    for (const TextPiece& piece : pieces) SplitPiece(piece, regex, behavior, invert, &out);
    return out;
  };
}

// GPT-2's alphabet: every byte as a printable character. Bytes that are printable in Latin-1 stand
// for themselves, the others follow from U+0100 on.
std::array<std::string, 256> ByteAlphabet() {
  std::array<std::string, 256> alphabet;
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    Utf8Append(printable ? byte : next++, &alphabet[byte]);
  }
  return alphabet;
}

PreTokenizer MakeByteLevel(const JsonView& config) {
  static constexpr std::string_view kGpt2 =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  PreTokenizer split;
  if (config.BoolOr("use_regex", true)) {
    split = MakeSplit(SplitRegex(kGpt2, config.file()), Behavior::kIsolated);
  }
  const bool prefix = config.BoolOr("add_prefix_space", true);
  return [split, prefix](TextPieces pieces) {
    static const std::array<std::string, 256> kAlphabet = ByteAlphabet();
    for (TextPiece& piece : pieces) {
      if (prefix && piece.text[0] != ' ') piece.text.insert(0, 1, ' ');
    }
    if (split) pieces = split(std::move(pieces));
    for (TextPiece& piece : pieces) {
      std::string mapped;
      mapped.reserve(piece.text.size() * 2);
      for (const char c : piece.text) mapped += kAlphabet[static_cast<uint8_t>(c)];
      piece.text = std::move(mapped);
    }
    return pieces;
  };
}

std::string PrependScheme(const JsonView& config) {
  const std::optional<JsonView> scheme = config.Find("prepend_scheme");
  if (!scheme) return config.BoolOr("add_prefix_space", true) ? "always" : "never";
  if (scheme->String() != "always" && scheme->String() != "first" && scheme->String() != "never") {
    throw scheme->Fail("expected always, first or never, found '" + scheme->String() + "'");
  }
  return scheme->String();
}

PreTokenizer MakeMetaspace(const JsonView& config) {
  const std::string replacement = config.Get("replacement").String();
  if (replacement.empty() || Utf8Length(replacement[0]) != replacement.size()) {
    throw config.Get("replacement").Fail("expected one character, found '" + replacement + "'");
  }
  const std::string scheme = PrependScheme(config);
  PreTokenizer split;
  if (config.BoolOr("split", true)) {
    split = MakeSplit(SplitRegex::Literal(replacement, config.file()), Behavior::kMergedWithNext);
  }
  return [replacement, scheme, split](TextPieces pieces) {
    for (TextPiece& piece : pieces) {
      std::string text;
      for (const char c : piece.text) {
        if (c == ' ') {
          text += replacement;
        } else {
          text += c;
        }
      }
      const bool prepend = scheme == "always" || (scheme == "first" && piece.first);
      if (prepend && !text.starts_with(replacement)) text.insert(0, replacement);
      piece.text = std::move(text);
    }
    return split ? split(std::move(pieces)) : pieces;
  };
}

// Words between spaces; every punctuation mark is one.
PreTokenizer MakeBert(const JsonView& config) {
  const PreTokenizer words = MakeSplit(SplitRegex(R"(\s+)", config.file()), Behavior::kRemoved);
  const PreTokenizer marks =
      MakeSplit(SplitRegex(R"([!-/:-@\[-`{-~]|\p{P})", config.file()), Behavior::kIsolated);
  return [words, marks](TextPieces pieces) { return marks(words(std::move(pieces))); };
}

PreTokenizer MakeSequence(const JsonView& config) {
  std::vector<PreTokenizer> steps;
  for (const JsonView& item : config.Get("pretokenizers").Items()) {
    steps.push_back(MakePreTokenizer(item));
  }
  return [steps = std::move(steps)](TextPieces pieces) {
    for (const PreTokenizer& step : steps) {
      if (step) pieces = step(std::move(pieces));
    }
    return pieces;
  };
}

}  // namespace

PreTokenizer MakePreTokenizer(const std::optional<JsonView>& config) {
  if (!config || config->IsNull()) return nullptr;
  const std::string& type = config->Get("type").String();
  if (type == "Split") {
    SplitRegex regex = MakePattern(config->Get("pattern"));
    const Behavior behavior = ParseBehavior(config->Get("behavior"));
    return MakeSplit(std::move(regex), behavior, config->BoolOr("invert", false));
  }
  if (type == "ByteLevel") return MakeByteLevel(*config);
  if (type == "Metaspace") return MakeMetaspace(*config);
  if (type == "Digits") {
    return MakeSplit(
        SplitRegex(R"(\p{N})", config->file()),
        config->BoolOr("individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous);
  }
  if (type == "BertPreTokenizer") return MakeBert(*config);
  if (type == "Whitespace") {
    return MakeSplit(SplitRegex(R"(\w+|[^\w\s]+)", config->file()), Behavior::kRemoved, true);
  }
  if (type == "WhitespaceSplit") {
    return MakeSplit(SplitRegex(R"(\s+)", config->file()), Behavior::kRemoved);
  }
  if (type == "Sequence") return MakeSequence(*config);
  throw RefuseComponent(
      *config, "pre-tokenizer", type,
      "Split, ByteLevel, Metaspace, Digits, BertPreTokenizer, Whitespace, WhitespaceSplit and "
      "Sequence");
}

}  // namespace hif8
