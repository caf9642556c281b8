#include "lib/runtime/token_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "lib/core/error.h"
#include "tests/model/safetensors/raw_file.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Samples = std::vector<std::vector<int64_t>>;

// A tokenizer of two letters and a space, without merges: one token a letter.
constexpr char kTokenizer[] = R"({"version": "1.0", "added_tokens": [], "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "post_processor": null, "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": {"a": 0, "b": 1, "Ġ": 2}, "merges": []}})";

class TokenDataTest : public ::testing::Test {
 protected:
  fs::path Put(const std::string& name, const std::string& bytes) {
    test::WriteBytes(folder_.path() / name, bytes);
    return folder_.path() / name;
  }
  static std::string Npy(const std::string& descr, const std::string& shape,
                         const std::string& data) {
    std::string header =
        "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    while ((header.size() + 11) % 64 != 0) header += ' ';
    header += '\n';
    std::string length(2, '\0');
    length[0] = static_cast<char>(header.size());
    return "\x93NUMPY\x01" + std::string(1, '\0') + length + header + data;
  }
  std::string ErrorOf(const fs::path& path) {
    try {
      CheckTokenIds(ReadTokenData(path, options_), 100);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      EXPECT_THAT(error.where(), HasSubstr(path.filename().string()));
      return error.message() + " @ " + error.where();
    }
    return "";
  }
  Samples Read(const fs::path& path) { return ReadTokenData(path, options_).samples; }

  test::TemporaryFolder folder_;
  TokenDataOptions options_{0, 4, folder_.path()};
};

TEST_F(TokenDataTest, ArraysOfAnyIntegerType) {
  const int32_t four[] = {1, 2, 3, 4};
  const std::string bytes(reinterpret_cast<const char*>(four), sizeof(four));
  EXPECT_EQ(Read(Put("a.npy", Npy("<i4", "(2, 2)", bytes))), (Samples{{1, 2}, {3, 4}}));
  EXPECT_EQ(Read(Put("a.npy", Npy("<u4", "(4,)", bytes))), (Samples{{1, 2, 3, 4}}));
  EXPECT_EQ(Read(Put("a.npy", Npy("|u1", "(1, 3)", "\x05\x06\xFF"))), (Samples{{5, 6, 255}}));
  const int64_t negative[] = {-1};
  EXPECT_EQ(Read(Put("a.npy", Npy("<i8", "(1,)", {reinterpret_cast<const char*>(negative), 8}))),
            (Samples{{-1}}));
  EXPECT_THAT(ErrorOf(Put("a.npy", Npy("<f4", "(4,)", bytes))), HasSubstr("F32 [4]"));
  EXPECT_THAT(ErrorOf(Put("a.npy", Npy("<i4", "(2, 2, 1)", bytes))), HasSubstr("[2, 2, 1]"));
  EXPECT_THAT(ErrorOf(Put("a.npy", Npy("<i4", "(0, 2)", ""))), HasSubstr("no sample"));
  options_.samples = 1;
  EXPECT_EQ(Read(Put("a.npy", Npy("<i4", "(2, 2)", bytes))), (Samples{{1, 2}}));
}

TEST_F(TokenDataTest, TextIsJoinedAndCut) {
  Put("tokenizer.json", kTokenizer);
  EXPECT_EQ(Read(Put("a.txt", "abba ab")), (Samples{{0, 1, 1, 0}, {2, 0, 1}}));
  EXPECT_EQ(Read(Put("a.txt", "abbaa")), (Samples{{0, 1, 1, 0}}));  // one token is left over
  EXPECT_EQ(Read(Put("a.jsonl", "{\"text\": \"abb\"}\n\n{\"text\": \"aab\", \"id\": 7}\r\n")),
            (Samples{{0, 1, 1, 0}, {0, 1}}));
  options_.samples = 1;
  EXPECT_EQ(Read(Put("a.txt", "abba ab")), (Samples{{0, 1, 1, 0}}));
  // What is behind the samples asked for is not even looked at.
  EXPECT_EQ(Read(Put("a.jsonl", "{\"text\": \"abbab\"}\nnonsense")), (Samples{{0, 1, 1, 0}}));
}

TEST_F(TokenDataTest, IdsInJsonLinesAreSamplesAsTheyAre) {
  EXPECT_EQ(Read(Put("a.jsonl", "{\"input_ids\": [5, 6, 7, 8, 9]}\n{\"input_ids\": [1, 2]}")),
            (Samples{{5, 6, 7, 8, 9}, {1, 2}}));
}

TEST_F(TokenDataTest, ErrorsNameFileAndLine) {
  Put("tokenizer.json", kTokenizer);
  const std::string ids = "{\"input_ids\": [1]}\n";
  EXPECT_THAT(ErrorOf(Put("a.jsonl", ids + "{")), HasSubstr("a.jsonl:2"));
  EXPECT_THAT(ErrorOf(Put("a.jsonl", ids + "[1]")), HasSubstr("a.jsonl:2"));
  EXPECT_THAT(ErrorOf(Put("a.jsonl", ids + "{\"input_ids\": \"x\"}")), HasSubstr("a.jsonl:2"));
  EXPECT_THAT(ErrorOf(Put("a.jsonl", ids + "{\"input_ids\": [1.5]}")), HasSubstr("1.5"));
  EXPECT_THAT(ErrorOf(Put("a.jsonl", ids + "{\"text\": \"a\"}")), HasSubstr("together"));
  EXPECT_THAT(ErrorOf(Put("a.jsonl", "{\"input_ids\": []}")), HasSubstr("sample 0"));
  EXPECT_THAT(ErrorOf(Put("a.jsonl", "{\"input_ids\": [1, 100]}")),
              HasSubstr("sample 0, position 1"));
  EXPECT_THAT(ErrorOf(Put("a.txt", "ab\xFF")), HasSubstr("a.txt"));
  EXPECT_THAT(ErrorOf(Put("a.txt", "a")), HasSubstr("no sample"));
  EXPECT_THAT(ErrorOf(Put("a.csv", "1,2")), HasSubstr(".npy, .jsonl or .txt"));
}

}  // namespace
}  // namespace hif8
