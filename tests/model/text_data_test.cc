// Token sequences from files. The small tokenizer: "a" is 0, "b" 1, "c" 2, "bc" 4, "1" 10;
// documents begin with 20.
#include "lib/model/tokenizer/text_data.h"

#include <gtest/gtest.h>

#include <cstring>

#include "lib/core/error.h"
#include "tests/model/tokenizer_fixture.h"
#include "tests/paths.h"

namespace hif8 {
namespace {

using Sequences = std::vector<std::vector<int32_t>>;
using Json = nlohmann::json;

class TextData : public TokenizerFiles {
 protected:
  TextData() {
    Json document = Document();
    document["model"]["merges"] = {"b c"};
    document["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", Json::array({20})}}}}}};
    Write("tokenizer.json", document.dump());
    options_.tokenizer_dir = dir_;
    options_.sequence_length = 4;
    options_.vocab_size = 21;
  }

  Sequences Load(const std::string& name, const std::string& content) const {
    return LoadTokenSequences(Write(name, content), options_);
  }
  void ExpectRefused(const std::string& name, const std::string& content,
                     const std::string& fragment, const std::string& where = {}) const {
    try {
      Load(name, content);
      ADD_FAILURE() << "accepted, expected an error with: " << fragment;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      EXPECT_NE(error.message().find(fragment), std::string::npos) << error.message();
      EXPECT_EQ(error.where(), (dir_ / name).string() + where);
    }
  }

  // A .npy file of `values`.
  template <typename T>
  static std::string Npy(const std::string& descr, const std::string& shape,
                         const std::vector<T>& values) {
    std::string header =
        "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(117, ' ');
    std::string data(values.size() * sizeof(T), '\0');
    if (!values.empty()) std::memcpy(data.data(), values.data(), data.size());
    return std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" + data;
  }

  TextDataOptions options_;
};

TEST_F(TextData, TextIsOneDocumentCutAtTheSequenceLength) {
  EXPECT_EQ(Load("x.txt", "abacbc1"), (Sequences{{20, 0, 1, 0}, {2, 4, 10}}));
  EXPECT_EQ(Load("x.txt", "abac"), (Sequences{{20, 0, 1, 0}}));  // the rest is one token
  options_.samples = 1;
  EXPECT_EQ(Load("x.txt", "abacbc1"), (Sequences{{20, 0, 1, 0}}));
}

TEST_F(TextData, JsonLinesOfTextAreJoined) {
  const std::string lines =
      "{\"text\": \"ab\"}\n\n  \r\n{\"text\": \"ca\", \"id\": 7}\r\n{\"text\":\"\"}";
  EXPECT_EQ(Load("x.jsonl", lines), (Sequences{{20, 0, 1, 20}, {2, 0, 20}}));
}

TEST_F(TextData, JsonLinesOfIdsAreSamples) {
  options_.tokenizer_dir = "";  // not needed
  const std::string lines =
      "{\"input_ids\": [1, 2, 3, 4, 5, 6]}\n{\"input_ids\": [7], \"text\": \"x\"}\n{\"input_ids\": "
      "[8, 9]}\n";
  EXPECT_EQ(Load("x.jsonl", lines), (Sequences{{1, 2, 3, 4}, {5, 6}, {8, 9}}));
  options_.samples = 2;
  EXPECT_EQ(Load("x.jsonl", lines), (Sequences{{1, 2, 3, 4}, {5, 6}}));
}

TEST_F(TextData, ArraysOfEveryIntegerType) {
  const Sequences expected = {{1, 2, 3}, {4, 5, 6}};
  EXPECT_EQ(Load("x.npy", Npy<int32_t>("<i4", "(2, 3)", {1, 2, 3, 4, 5, 6})), expected);
  EXPECT_EQ(Load("x.npy", Npy<int64_t>("<i8", "(2, 3)", {1, 2, 3, 4, 5, 6})), expected);
  EXPECT_EQ(Load("x.npy", Npy<uint16_t>("<u2", "(2, 3)", {1, 2, 3, 4, 5, 6})), expected);
  EXPECT_EQ(Load("x.npy", Npy<uint32_t>("<u4", "(2, 3)", {1, 2, 3, 4, 5, 6})), expected);
  EXPECT_EQ(Load("x.npy", Npy<uint8_t>("|u1", "(2, 3)", {1, 2, 3, 4, 5, 6})), expected);
  EXPECT_EQ(Load("x.npy", Npy<uint64_t>("<u8", "(2, 3)", {1, 2, 3, 4, 5, 6})), expected);
  EXPECT_EQ(Load("x.npy", Npy<int32_t>("<i4", "(6,)", {1, 2, 3, 4, 5, 6})),
            (Sequences{{1, 2, 3, 4}, {5, 6}}));
}

TEST_F(TextData, IdsOutsideTheVocabularyNameSampleAndPosition) {
  ExpectRefused("x.npy", Npy<int32_t>("<i4", "(2, 2)", {1, 2, 3, 21}),
                "0 to 20, found 21 in sample 1 at position 1");
  ExpectRefused("x.npy", Npy<int64_t>("<i8", "(1, 2)", {-100, 2}),
                "found -100 in sample 0 at position 0");
  ExpectRefused("x.npy", Npy<uint64_t>("<u8", "(1, 2)", {1, UINT64_MAX}), "at position 1");
  ExpectRefused("x.jsonl", "{\"input_ids\": [1, 2]}\n\n{\"input_ids\": [1, 99]}",
                "found 99 in sample 1 at position 1", ":3");
  ExpectRefused("x.jsonl", "{\"input_ids\": [18446744073709551615]}", "position 0", ":1");
  options_.vocab_size = 20;
  ExpectRefused("x.txt", "ab", "found 20 in the tokenized text at position 0");
}

TEST_F(TextData, RefusesWhatItCannotRead) {
  ExpectRefused("x.jsonl", "{\"text\": \"ab\"}\n{\"text\": ", "not valid JSON", ":2");
  ExpectRefused("x.jsonl", "{\"text\": \"ab\"}\n[1]", "expected an object", ":2");
  ExpectRefused("x.jsonl", "{\"texts\": \"ab\"}", "found neither", ":1");
  ExpectRefused("x.jsonl", "{\"text\": 7}", "text: expected a string, found 7", ":1");
  ExpectRefused("x.jsonl", "{\"input_ids\": [1, 2.5]}", "at position 1", ":1");
  ExpectRefused("x.jsonl", "{\"input_ids\": \"1 2\"}", "a list of token ids", ":1");
  ExpectRefused("x.jsonl", "{\"text\": \"ab\"}\n{\"input_ids\": [1]}", "the same kind", ":2");
  ExpectRefused("x.npy", Npy<float>("<f4", "(1, 2)", {1, 2}), "found F32 [1, 2]");
  ExpectRefused("x.npy", Npy<int32_t>("<i4", "(1, 1, 2)", {1, 2}), "found I32 [1, 1, 2]");
  ExpectRefused("x.npy", "", "does not begin as one");
  ExpectRefused("x.txt", "ab\xff", "at offset 2");
  ExpectRefused("x.txt", "", "found none");
  ExpectRefused("x.npy", Npy<int32_t>("<i4", "(0, 2)", {}), "found none");
  ExpectRefused("x.csv", "ab", "'.csv'");
  options_.sequence_length = 1;
  EXPECT_THROW(Load("x.txt", "abc"), Error);
}

TEST_F(TextData, TextAndIdsOfARealVocabularyAgree) {
  const std::filesystem::path model = std::filesystem::path(HIF8_SHARED_DIR) / "models/tiny-qwen3";
  if (!std::filesystem::exists(model)) {
    GTEST_SKIP() << "no " << model << ": the checkpoint with recorded token ids is not here";
  }
  const TextDataOptions options{model, 256, 0, 2048};
  const Sequences text = LoadTokenSequences(model / "validation.txt", options);
  EXPECT_EQ(text, LoadTokenSequences(model / "validation_text_ids.npy", options));
  EXPECT_EQ(text.size(), 129U);  // 32902 tokens
}

}  // namespace
}  // namespace hif8
