// WordPiece and BERT's own normalizer and pre-tokenizer; the ids follow from the rules by hand.
#include <gmock/gmock.h>

#include "lib/core/error.h"
#include "tests/model/tokenizer_fixture.h"

namespace hif8 {
namespace {

using Ids = std::vector<int32_t>;

class WordPieceTest : public TokenizerFiles {
 protected:
  static nlohmann::json Bert() {
    const nlohmann::json vocabulary = {
        {"[UNK]", 0},   {"un", 1},     {"##aff", 2},  {"##able", 3}, {"want", 4},
        {"##ed", 5},    {",", 6},      {"cafe", 7},   {"Caf", 8},    {"##\u00e9", 9},
        {"\u5317", 10}, {"[SEP]", 11}, {"[CLS]", 12}, {"##a", 13}};
    return {{"added_tokens", {{{"id", 11}, {"content", "[SEP]"}, {"special", true}}}},
            {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}}},
            {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"post_processor", nullptr},
            {"model",
             {{"type", "WordPiece"},
              {"unk_token", "[UNK]"},
              {"continuing_subword_prefix", "##"},
              {"max_input_chars_per_word", 100},
              {"vocab", vocabulary}}}};
  }
};

TEST_F(WordPieceTest, TheLongestPieceFirst) {
  const auto tokenizer = Load(Bert());
  EXPECT_EQ(tokenizer->Encode("unaffable"), (Ids{1, 2, 3}));
  EXPECT_EQ(tokenizer->Encode("UNWANTED, wanted"), (Ids{0, 6, 4, 5}));
  // What cannot be taken apart to its end is unknown as a whole.
  EXPECT_EQ(tokenizer->Encode("unaffabl"), (Ids{0}));
  EXPECT_EQ(tokenizer->Encode("aff"), (Ids{0}));
  EXPECT_EQ(tokenizer->vocab_size(), 14u);
}

TEST_F(WordPieceTest, SpacesMarksIdeographsAccentsAndControlCharacters) {
  const auto tokenizer = Load(Bert());
  EXPECT_EQ(tokenizer->Encode("want,un\tun\u00a0un"), (Ids{4, 6, 1, 1, 1}));
  EXPECT_EQ(tokenizer->Encode("Caf\u00e9"), (Ids{7}));
  EXPECT_EQ(tokenizer->Encode("un\u5317un"), (Ids{1, 10, 1}));
  EXPECT_EQ(tokenizer->Encode("wa\u200bnt\u0007"), (Ids{4}));
  EXPECT_EQ(tokenizer->Encode("want[SEP]want"), (Ids{4, 11, 4}));
  EXPECT_EQ(tokenizer->Encode(""), Ids{});
}

TEST_F(WordPieceTest, CaseAndAccentsStayWhereTheFileSaysSo) {
  nlohmann::json document = Bert();
  document["normalizer"]["lowercase"] = false;
  EXPECT_EQ(Load(document)->Encode("Caf\u00e9 UN un"), (Ids{8, 9, 0, 1}));
  document["normalizer"]["strip_accents"] = true;
  EXPECT_EQ(Load(document)->Encode("cafe\u0301"), (Ids{7}));
}

TEST_F(WordPieceTest, LongWordsAreUnknown) {
  nlohmann::json document = Bert();
  document["model"]["max_input_chars_per_word"] = 4;
  document["model"]["vocab"]["un"] = 1;
  EXPECT_EQ(Load(document)->Encode("una unaaa"), (Ids{1, 13, 0}));
}

TEST_F(WordPieceTest, AVocabularyAloneIsBertsTokenizer) {
  Write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\r\n##aff\n##able\ncaf\n##e\nCaf\n");
  EXPECT_EQ(Tokenizer::Load(dir_)->Encode("Unaffable caf\u00e9"), (Ids{2, 4, 5, 6, 7, 8, 3}));
  EXPECT_EQ(Tokenizer::Load(dir_)->Encode("un", false), (Ids{4}));
  Write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(Tokenizer::Load(dir_)->Encode("Cafe"), (Ids{2, 9, 8, 3}));
}

TEST_F(WordPieceTest, MistakesAreTold) {
  nlohmann::json document = Bert();
  document["model"]["unk_token"] = "[unknown]";
  EXPECT_THROW(Load(document), Error);
  document = Bert();
  document["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"[CLS]"}}, {"sep", {"x", 1}}};
  EXPECT_THROW(Load(document), Error);
  document = Bert();
  document["model"]["type"] = "Unigram";
  try {
    Load(document);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::HasSubstr("Unigram"));
  }
}

}  // namespace
}  // namespace hif8
