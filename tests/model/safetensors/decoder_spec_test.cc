// Numbers of config.json that no model has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/model/safetensors/architecture.h"
#include "tests/paths.h"

namespace hif8 {
namespace {

// What is said of DeepSeek's config.json with another value for that key.
std::string Problem(const std::string& key, int64_t value) {
  std::ifstream file(HIF8_TEST_DATA_DIR "/models/random-deepseek-v3-fp8/config.json");
  nlohmann::json json = nlohmann::json::parse(file);
  json[key] = value;
  const ModelConfig config = ModelConfig::Parse(json.dump(), "config.json");
  try {
    MakeDecoderSpec(*FindDescription(config), config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel);
    return error.message();
  }
  return "";
}

TEST(DecoderSpec, DimensionsAreBounded) {
  for (const std::string key : {"hidden_size", "n_shared_experts", "q_lora_rank", "kv_lora_rank",
                                "moe_intermediate_size"}) {
    for (const int64_t value : {INT64_MAX, INT64_MIN, int64_t{-1}, int64_t{1} << 29}) {
      EXPECT_THAT(Problem(key, value), testing::HasSubstr("to 268435456, found ")) << key;
    }
  }
  // Neither shared experts nor a compressed query.
  EXPECT_EQ(Problem("n_shared_experts", 0), "");
  EXPECT_EQ(Problem("q_lora_rank", 0), "");
}

}  // namespace
}  // namespace hif8
