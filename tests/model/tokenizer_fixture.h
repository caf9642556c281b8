// Builds small tokenizer.json documents for tests.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "gtest/gtest.h"
#include "lib/model/tokenizer/tokenizer.h"

namespace hif8 {

// A folder of its own for each test, removed at the end.
class TokenizerFiles : public ::testing::Test {
 protected:
  TokenizerFiles()
      : dir_(std::filesystem::path(::testing::TempDir()) /
             ("tokenizer_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(dir_);
  }
  ~TokenizerFiles() override { std::filesystem::remove_all(dir_); }

  std::filesystem::path Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }
  std::unique_ptr<Tokenizer> Load(const nlohmann::json& document) const {
    Write("tokenizer.json", document.dump());
    return Tokenizer::Load(dir_);
  }

  // A model over single letters and what `merges` join; everything else is null.
  static nlohmann::json Document() {
    nlohmann::json vocab = {{"a", 0},   {"b", 1},      {"c", 2},       {"ab", 3},     {"bc", 4},
                            {"abc", 5}, {"\u2581", 6}, {"\u2581a", 7}, {"<unk>", 8},  {"aa", 9},
                            {"1", 10},  {"2", 11},     {"12", 12},     {"\u00e9", 13}};
    nlohmann::json merges = {"b c", "a b", "ab c", "\u2581 a", "a a", "1 2"};
    return {{"added_tokens", nlohmann::json::array()},
            {"normalizer", nullptr},
            {"pre_tokenizer", nullptr},
            {"post_processor", nullptr},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
  }

  std::filesystem::path dir_;
};

}  // namespace hif8
