// Expected ids are worked out by hand. A vocabulary of a real model is compared in
// tokenizer_reference_slow_test.cc.
#include <gtest/gtest.h>

#include "lib/core/error.h"
#include "lib/core/sanitizer.h"
#include "tests/model/sentencepiece_model.h"
#include "tests/model/tokenizer_fixture.h"

namespace hif8 {
namespace {

using Ids = std::vector<int32_t>;

class SentencePiece : public TokenizerFiles {
 protected:
  void SetUp() override {
    if (kSanitizedBuild) {
      GTEST_SKIP() << "the SentencePiece library cannot be opened in a build with sanitizers";
    }
    std::vector<Piece> pieces = {{"<unk>", 0, PieceType::kUnknown},
                                 {"<s>", 0, PieceType::kControl},
                                 {"</s>", 0, PieceType::kControl}};
    for (int byte = 0; byte < 256; ++byte) {
      constexpr char kDigits[] = "0123456789ABCDEF";
      const std::string hex = {kDigits[byte / 16], kDigits[byte % 16]};
      pieces.push_back({"<0x" + hex + ">", 0, PieceType::kByte});
    }
    for (const char* text : {"b c", "a b", "\u2581 ab", "\u2581", "a", "b", "c"}) {  // 259 to 265
      std::string joined;
      for (const char* c = text; *c != '\0'; ++c) joined += *c == ' ' ? "" : std::string(1, *c);
      pieces.push_back({joined, -static_cast<float>(pieces.size()), PieceType::kNormal});
    }
    Write("tokenizer.model", SentencePieceModel(pieces));
  }
};

TEST_F(SentencePiece, EncodesWithByteFallbackAndBeginToken) {
  const auto tokenizer = Tokenizer::Load(dir_);
  EXPECT_EQ(tokenizer->Encode("ab"), (Ids{1, 261}));
  EXPECT_EQ(tokenizer->Encode("abc", false), (Ids{262, 263, 259}));  // bc is better than ab
  EXPECT_EQ(tokenizer->Encode("a \u00fc", false), (Ids{262, 263, 262, 3 + 0xc3, 3 + 0xbc}));
  EXPECT_EQ(tokenizer->Encode(""), (Ids{1}));
  EXPECT_EQ(tokenizer->vocab_size(), 266U);
}

TEST_F(SentencePiece, FollowsTokenizerConfig) {
  Write("tokenizer_config.json",
        R"({"add_bos_token": false, "add_eos_token": true, "added_tokens_decoder": {
    "1": {"content": "<s>", "special": true}, "300": {"content": "[x]", "special": true}}})");
  const auto tokenizer = Tokenizer::Load(dir_);
  EXPECT_EQ(tokenizer->Encode("ab[x]ab<s>"), (Ids{261, 300, 261, 1, 2}));
  EXPECT_EQ(tokenizer->vocab_size(), 301U);
  Write("tokenizer_config.json", R"({"added_tokens_decoder": {"one": {"content": "<s>"}}})");
  EXPECT_THROW(Tokenizer::Load(dir_), Error);
}

TEST_F(SentencePiece, RefusesDamage) {
  for (const char* text : {"", "no model", "\n\x7f", "<!DOCTYPE html>"}) {
    const std::string path = Write("tokenizer.model", text).string();
    try {
      Tokenizer::Load(dir_);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      EXPECT_EQ(error.where(), path);
    }
  }
}

}  // namespace
}  // namespace hif8
