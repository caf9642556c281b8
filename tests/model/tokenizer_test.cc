// Expected ids here are worked out by hand from the definition of each component.
#include "lib/model/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "lib/core/error.h"
#include "lib/core/input_file.h"
#include "lib/core/npy.h"
#include "tests/model/tokenizer_fixture.h"
#include "tests/paths.h"

namespace hif8 {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

class TokenizerJson : public TokenizerFiles {
 protected:
  Ids Encode(const Json& document, const std::string& text) const {
    return Load(document)->Encode(text);
  }
  void ExpectRefused(const std::string& text, const std::string& fragment) const {
    const std::string path = Write("tokenizer.json", text).string();
    try {
      Tokenizer::Load(dir_);
      ADD_FAILURE() << "accepted, expected an error with: " << fragment;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      EXPECT_EQ(error.where(), path);
      EXPECT_NE(error.message().find(fragment), std::string::npos) << error.message();
    }
  }
  static Json Added(int id, const std::string& content, const Json& flags = Json::object()) {
    Json token = {{"id", id}, {"content", content}, {"special", true}, {"normalized", false}};
    token.update(flags);
    return token;
  }
};

TEST_F(TokenizerJson, JoinsTheEarliestMergeFirst) {
  EXPECT_EQ(Encode(Document(), "abc"), (Ids{0, 4}));  // "b c" stands before "a b"
  EXPECT_EQ(Encode(Document(), "ab"), (Ids{3}));
  EXPECT_EQ(Encode(Document(), "aaa"), (Ids{9, 0}));  // leftmost of equals
  EXPECT_EQ(Encode(Document(), ""), Ids{});
  Json ignore = Document();
  ignore["model"]["ignore_merges"] = true;
  EXPECT_EQ(Encode(ignore, "abc"), (Ids{5}));
  Json pairs = Document();
  pairs["model"]["merges"] = Json::array({Json::array({"a", "b"}), Json::array({"ab", "c"})});
  EXPECT_EQ(Encode(pairs, "abc"), (Ids{5}));
  EXPECT_EQ(Load(Document())->vocab_size(), 14U);
}

TEST_F(TokenizerJson, UnknownCharacters) {
  EXPECT_EQ(Encode(Document(), "a\u4f60b"), (Ids{3}));  // dropped without an unknown token
  Json unknown = Document();
  unknown["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(Encode(unknown, "axyb"), (Ids{0, 8, 8, 1}));
  unknown["model"]["fuse_unk"] = true;
  EXPECT_EQ(Encode(unknown, "axyb"), (Ids{0, 8, 1}));
  unknown["model"]["byte_fallback"] = true;
  unknown["model"]["vocab"]["<0xC3>"] = 20;
  unknown["model"]["vocab"]["<0xBC>"] = 21;
  EXPECT_EQ(Encode(unknown, "a\u00fcx"), (Ids{0, 20, 21, 8}));
}

TEST_F(TokenizerJson, AddedTokens) {
  Json document = Document();
  document["added_tokens"] = {
      Added(20, "<s>"), Added(21, "<s>>"), Added(22, "<l>", {{"lstrip", true}}),
      Added(23, "<r>", {{"rstrip", true}}), Added(24, "c", {{"single_word", true}})};
  document["model"]["vocab"].erase("c");
  document["model"]["merges"] = {"a b"};
  document["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(Encode(document, "a<s>b"), (Ids{0, 20, 1}));
  EXPECT_EQ(Encode(document, "<s>>a<s"), (Ids{21, 0, 8, 8}));  // the longest; a part is none
  EXPECT_EQ(Encode(document, "a \t<l>"), (Ids{0, 22}));
  EXPECT_EQ(Encode(document, "<r> \u3000 a"), (Ids{23, 0}));
  EXPECT_EQ(Encode(document, "c"), (Ids{24}));
  EXPECT_EQ(Encode(document, "(c)"), (Ids{8, 24, 8}));
  EXPECT_EQ(Encode(document, "ac\u0301"), (Ids{0, 8, 8}));
  EXPECT_EQ(Load(document)->vocab_size(), 25U);
}

TEST_F(TokenizerJson, NormalizedAddedTokens) {
  Json document = Document();
  document["normalizer"] = {{"type", "NFC"}};
  document["added_tokens"] = {Added(20, "e\u0301!", {{"normalized", true}}), Added(21, "e\u0301?")};
  EXPECT_EQ(Encode(document, "e\u0301!"), (Ids{20}));
  EXPECT_EQ(Encode(document, "\u00e9!"), (Ids{20}));
  EXPECT_EQ(Encode(document, "e\u0301?"), (Ids{21}));
  EXPECT_EQ(Encode(document, "\u00e9?"), (Ids{13}));
}

TEST_F(TokenizerJson, Normalizers) {
  Json document = Document();
  document["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(Encode(document, "e\u0301"), (Ids{13}));
  document["normalizer"] = {{"type", "NFKC"}};
  EXPECT_EQ(Encode(document, "\uff41\u2460"), (Ids{0, 10}));  // full-width a, circled 1
  document["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", "\u2581"}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}},
        {{"type", "Replace"}, {"pattern", {{"Regex", "[xy]+"}}}, {"content", "b"}}}}};
  EXPECT_EQ(Encode(document, "a axyc"), (Ids{7, 7, 4}));
  EXPECT_EQ(Encode(document, ""), Ids{});
}

Json Split(const std::string& regex, const std::string& behavior, bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", behavior},
          {"invert", invert}};
}

TEST_F(TokenizerJson, SplitBehaviors) {
  Json document = Document();
  const auto split = [&](const std::string& behavior, bool invert = false) {
    document["pre_tokenizer"] = Split("b", behavior, invert);
    return Encode(document, "abbc");
  };
  EXPECT_EQ(split("Isolated"), (Ids{0, 1, 1, 2}));
  EXPECT_EQ(split("Removed"), (Ids{0, 2}));
  EXPECT_EQ(split("Removed", true), (Ids{1, 1}));
  EXPECT_EQ(split("MergedWithPrevious"), (Ids{3, 1, 2}));
  EXPECT_EQ(split("MergedWithNext"), (Ids{0, 1, 4}));
  EXPECT_EQ(split("Contiguous"), (Ids{0, 1, 1, 2}));
  document["pre_tokenizer"] = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(Encode(document, "a12"), (Ids{0, 10, 11}));
  document["pre_tokenizer"] = {{"type", "Digits"}, {"individual_digits", false}};
  EXPECT_EQ(Encode(document, "a12"), (Ids{0, 12}));
}

TEST_F(TokenizerJson, Metaspace) {
  Json document = Document();
  Json space = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}};
  document["added_tokens"] = Json::array({Added(20, "<s>")});
  document["pre_tokenizer"] = space;
  EXPECT_EQ(Encode(document, "a a<s>a"), (Ids{7, 7, 20, 7}));
  space["prepend_scheme"] = "first";
  document["pre_tokenizer"] = space;
  EXPECT_EQ(Encode(document, "a a<s>a"), (Ids{7, 7, 20, 0}));
  EXPECT_EQ(Encode(document, "<s>a"), (Ids{20, 0}));
  space["prepend_scheme"] = "never";
  document["pre_tokenizer"] = space;
  EXPECT_EQ(Encode(document, "a  a"), (Ids{0, 6, 7}));
}

TEST_F(TokenizerJson, ByteLevel) {
  Json document = Document();
  document["model"]["vocab"] = {{"\u0120", 0}, {"a", 1},      {"\u0120a", 2},
                                {"\u00c3", 3}, {"\u00bc", 4}, {"\u010a", 5}};
  document["model"]["merges"] = {"\u0120 a"};
  document["pre_tokenizer"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  EXPECT_EQ(Encode(document, "a a\u00fc\n"), (Ids{1, 2, 3, 4, 5}));
  EXPECT_EQ(Encode(document, "  a"), (Ids{0, 2}));  // the last space goes to the word
  document["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(Encode(document, "a"), (Ids{2}));
}

TEST_F(TokenizerJson, PostProcessors) {
  Json document = Document();
  const Json special = {{"<s>", {{"id", "<s>"}, {"ids", Json::array({20})}}},
                        {"</s>", {{"id", "</s>"}, {"ids", Json::array({21, 22})}}}};
  const Json single = {{{"SpecialToken", {{"id", "<s>"}}}},
                       {{"Sequence", {{"id", "A"}}}},
                       {{"SpecialToken", {{"id", "</s>"}}}}};
  const Json processor = {
      {"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", special}};
  document["post_processor"] = processor;
  EXPECT_EQ(Encode(document, "a"), (Ids{20, 0, 21, 22}));
  EXPECT_EQ(Load(document)->Encode("a", false), (Ids{0}));
  document["post_processor"] = {{"type", "Sequence"},
                                {"processors", {{{"type", "ByteLevel"}}, processor}}};
  EXPECT_EQ(Encode(document, ""), (Ids{20, 21, 22}));
}

TEST_F(TokenizerJson, OnigurumaPatterns) {
  Json document = Document();
  document["model"]["unk_token"] = "<unk>";
  const auto count = [&](const std::string& regex, const std::string& text) {
    document["pre_tokenizer"] = Split(regex, "Removed", true);
    document["model"]["fuse_unk"] = true;
    return Encode(document, text).size();  // one unknown token for each match
  };
  EXPECT_EQ(count("\\s", "x\u0085y\u3000z\u00a0"), 3U);
  EXPECT_EQ(count("\\s", "\u180e\u200b"), 0U);  // no White_Space
  EXPECT_EQ(count("\\w+", "x\u0301y \u4f60"), 2U);
  EXPECT_EQ(count("\\h+", "fF0 \t"), 1U);  // a hexadecimal digit
  EXPECT_EQ(count("[\\h]", "f\tF"), 2U);
  EXPECT_EQ(count("^x$", "x\nx\nxx"), 2U);  // lines
  EXPECT_EQ(count("(?m:x.y)", "x\ny"), 1U);
  EXPECT_EQ(count("x.y", "x\ny"), 0U);
  EXPECT_EQ(count("\\p{Han}", "\u4f60\u3001"), 1U);  // Script, not Script_Extensions
  EXPECT_EQ(count("(?i:'S)", "'s'S's"), 3U);
  for (const char* refused :
       {"[a&&b]", "[a[bc]]", "x{1,2}+", "\\K", "[\\W]", "(", "\\p{Nonsense}", "[a", "\\"}) {
    document["pre_tokenizer"] = Split(refused, "Isolated");
    EXPECT_THROW(Load(document), Error) << refused;
  }
}

TEST_F(TokenizerJson, LongWordsTakeNoQuadraticTime) {
  Json document = Document();
  const Ids ids = Encode(document, std::string(1 << 20, 'a'));
  EXPECT_EQ(ids, Ids(1 << 19, 9));
}

// Long words are encoded in parts; that must not show.
TEST_F(TokenizerJson, LongWordsGiveTheIdsOfShortOnes) {
  Json document = Document();
  document["model"]["unk_token"] = "<unk>";
  document["model"]["fuse_unk"] = true;
  // Alone: "bc" is 4, "12" 12, two unknown characters one 8, "ab" 3.
  const auto tokenizer = Load(document);
  std::string text;
  Ids expected;
  for (int i = 0; i < 1000; ++i) {
    text += "abc12xyab";
    expected.insert(expected.end(), {0, 4, 12, 8, 3});
  }
  // Across the seams "ab" + "a" joins nothing.
  EXPECT_EQ(tokenizer->Encode(text), expected);
}

TEST_F(TokenizerJson, InvalidUtf8NamesTheOffset) {
  const auto tokenizer = Load(Document());
  const std::pair<std::string, int> cases[] = {{"ab\xff", 2},       {"a\xc3", 1},
                                               {"\xc0\xaf", 0},     {"12345678\xed\xa0\x80", 8},
                                               {"\x80", 0},         {"a\xf4\x90\x80\x80", 1},
                                               {"\xe0\x9f\xbf", 0}, {"\xf0\x8f\xbf\xbf", 0}};
  for (const auto& [text, offset] : cases) {
    try {
      tokenizer->Encode(text);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      EXPECT_TRUE(error.message().ends_with("offset " + std::to_string(offset))) << error.message();
    }
  }
  EXPECT_EQ(tokenizer->Encode("\xf4\x8f\xbf\xbf\xed\x9f\xbf"),
            Ids{});  // the last ones that are valid
}

TEST_F(TokenizerJson, RefusesComponentsByName) {
  const auto refused = [&](const std::string& pointer, const Json& value,
                           const std::string& fragment) {
    Json document = Document();
    document[Json::json_pointer(pointer)] = value;
    ExpectRefused(document.dump(), fragment);
  };
  refused("/normalizer", {{"type", "Nmt"}}, "normalizer: the normalizer 'Nmt'");
  refused(
      "/pre_tokenizer",
      {{"type", "Sequence"}, {"pretokenizers", Json::array({Json{{"type", "UnicodeScripts"}}})}},
      "pre_tokenizer.pretokenizers[0]: the pre-tokenizer 'UnicodeScripts'");
  refused("/post_processor", {{"type", "PairProcessing"}}, "post-processor 'PairProcessing'");
  refused("/model/type", "Unigram", "the model 'Unigram'");
  refused("/model/dropout", 0.1, "dropout");
  refused("/model/end_of_word_suffix", "</w>", "</w>");
  refused("/pre_tokenizer", Split("b", "Sideways"), "Sideways");
}

TEST_F(TokenizerJson, RefusesDamage) {
  const std::string good = Document().dump();
  for (size_t n = 0; n < good.size(); n += 7) ExpectRefused(good.substr(0, n), "");
  const auto refused = [&](const std::string& pointer, const Json& value,
                           const std::string& fragment) {
    Json document = Document();
    document[Json::json_pointer(pointer)] = value;
    ExpectRefused(document.dump(), fragment);
  };
  ExpectRefused("[]", "expected an object");
  ExpectRefused(std::string(100000, '['), "");
  ExpectRefused("{}", "'model'");
  refused("/model/vocab", Json::array(), "model.vocab");
  refused("/model/vocab/a", -1, "model.vocab.a");
  refused("/model/vocab/a", 4000000000U, "model.vocab.a");
  refused("/model/vocab", Json::object(), "empty");
  refused("/model/merges/0", "x y", "'x', which is not in the vocabulary");
  refused("/model/merges/0", 3, "merge 0");
  refused("/model/merges", 3, "model.merges");
  refused("/model/unk_token", "<none>", "'<none>'");
  refused("/added_tokens", Json::array({Json{{"id", 20}}}),
          "added_tokens[0]: expected the key 'content'");
  refused("/added_tokens", Json::array({Added(20, "a")}),
          "'a' has the id 20, in the vocabulary it has 0");
  refused("/normalizer", 7, "normalizer: expected an object, found 7");
  refused("/pre_tokenizer", {{"type", "Split"}}, "pre_tokenizer: expected the key 'pattern'");
  refused("/post_processor", {{"type", "TemplateProcessing"}, {"single", Json::array()}},
          "sequence A");
}

TEST_F(TokenizerJson, AnyDamageGivesAnErrorOfOurs) {
  Json document = Document();
  document["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", Json::array({Split("\\s+|[^\\s]\\p{L}*", "Isolated"),
                                     Json{{"type", "ByteLevel"}, {"use_regex", false}}})}};
  document["normalizer"] = {{"type", "NFC"}};
  document["added_tokens"] = Json::array({Added(20, "<s>", {{"lstrip", true}})});
  const std::string good = document.dump();
  std::mt19937 random(3);
  int loaded = 0;
  for (int i = 0; i < 600; ++i) {
    std::string text = good;
    for (int k = 1 + static_cast<int>(random() % 3); k > 0; --k) {
      static constexpr std::string_view kBytes = "{}[]\",:\\0129.-x(?*+^\xff\xc3";
      text[random() % text.size()] = kBytes[random() % kBytes.size()];
    }
    const std::string path = Write("tokenizer.json", text).string();
    try {
      const auto tokenizer = Tokenizer::Load(dir_);
      ++loaded;
      tokenizer->Encode("a <s>b12\u00e9 \u4f60abc");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel) << text;
      EXPECT_EQ(error.where(), path) << text;
    }
  }
  EXPECT_GT(loaded, 20);  // some damage is harmless
  EXPECT_LT(loaded, 580);
}

TEST_F(TokenizerJson, ARealVocabularyGivesTheRecordedIds) {
  const std::filesystem::path model = std::filesystem::path(HIF8_SHARED_DIR) / "models/tiny-qwen3";
  if (!std::filesystem::exists(model)) {
    GTEST_SKIP() << "no " << model << ": the checkpoint with recorded token ids is not here";
  }
  const Tensor recorded = ReadNpy(model / "validation_text_ids.npy");
  ASSERT_EQ(recorded.view.dtype, DType::kI64);
  std::vector<int64_t> expected(recorded.view.size());
  std::memcpy(expected.data(), recorded.view.data, recorded.view.bytes());
  const Ids ids = Tokenizer::Load(model)->Encode(ReadFile(model / "validation.txt"));
  EXPECT_EQ(std::vector<int64_t>(ids.begin(), ids.end()), expected);
  EXPECT_EQ(Tokenizer::Load(model)->vocab_size(), 2048U);
}

TEST_F(TokenizerJson, AFolderWithoutTokenizer) {
  try {
    Tokenizer::Load(dir_);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), dir_.string());
    EXPECT_NE(error.message().find("tokenizer.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace hif8
