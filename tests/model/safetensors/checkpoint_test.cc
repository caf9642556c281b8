#include "lib/model/safetensors/checkpoint.h"
#include "formats/builtin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lib/core/error.h"
#include "tests/model/safetensors/checkpoint_files.h"
#include "tests/paths.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kModels = fs::path(HIF8_TEST_DATA_DIR) / "models";

std::map<std::string, Layer> LayersByName(const Checkpoint& checkpoint) {
  std::map<std::string, Layer> layers;
  for (const Layer& layer : checkpoint.layers()) layers[layer.name] = layer;
  return layers;
}

class CheckpointTest : public ::testing::Test {
 protected:
  void Put(const std::string& name, const std::string& bytes) {
    test::WriteBytes(folder_.path() / name, bytes);
  }
  // Error of opening the folder; its message and hint.
  std::string ErrorOf() {
    try {
      Checkpoint::Open(folder_.path(), StoredFormats());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      EXPECT_FALSE(error.where().empty());
      return error.message() + " | " + error.hint();
    }
    return "";
  }

  test::TemporaryFolder folder_;
};

TEST_F(CheckpointTest, LayersOfALanguageModel) {
  const auto checkpoint = Checkpoint::Open(kModels / "random-llama", StoredFormats());
  const auto layers = LayersByName(*checkpoint);
  EXPECT_EQ(checkpoint->files().shards.size(), 2u);
  EXPECT_EQ(checkpoint->files().index_name, "model.safetensors.index.json");
  EXPECT_EQ(checkpoint->files().side_files,
            (std::vector<std::string>{"reference.json", "reference.safetensors"}));
  // 3 blocks of 7, embedding, head.
  size_t linear = 0;
  for (const auto& [name, layer] : layers) linear += layer.weight >= 0 && !layer.optional;
  EXPECT_EQ(linear, 21u);
  const Layer& gate = layers.at("model.layers.1.mlp.gate_proj");
  EXPECT_EQ(gate.block, 1);
  EXPECT_EQ(gate.op, "Linear");
  EXPECT_EQ(gate.macs, 176.0 * 64);
  const Weight& weight = checkpoint->weights()[static_cast<size_t>(gate.weight)];
  EXPECT_EQ(weight.name, "model.layers.1.mlp.gate_proj.weight");
  EXPECT_EQ(weight.shape, (Shape{176, 64}));
  EXPECT_EQ(weight.channels.channels, 176u);
  EXPECT_EQ(weight.channels.inner, 64u);
  EXPECT_EQ(layers.at("model.embed_tokens").option, "embeddings");
  EXPECT_TRUE(layers.at("model.embed_tokens").optional);
  EXPECT_EQ(layers.at("lm_head").option, "lm_head");
  EXPECT_EQ(layers.at("lm_head").block, -1);
  // All tensors are bf16, two bytes per parameter: total_size of the index.
  EXPECT_EQ(checkpoint->parameter_count(), 342912u / 2);
}

TEST_F(CheckpointTest, RoutersStayAndExpertsAreLayers) {
  const auto layers =
      LayersByName(*Checkpoint::Open(kModels / "random-qwen3-moe", StoredFormats()));
  EXPECT_THAT(layers.at("model.layers.0.mlp.gate").unsupported, HasSubstr("router"));
  EXPECT_TRUE(layers.at("model.layers.1.mlp.gate_proj").unsupported.empty());
  EXPECT_EQ(layers.at("model.layers.2.mlp.experts.7.down_proj").block, 2);
}

TEST_F(CheckpointTest, FusedExpertsHaveOneScalePerExpertAndChannel) {
  Put("model.safetensors",
      test::FileOf({{"model.layers.0.mlp.experts.gate_up_proj",
                     "F32",
                     {2, 6, 4},
                     test::F32Bytes(std::vector<float>(48, 1))},
                    {"conv.weight", "F32", {1, 2, 2}, test::F32Bytes({1, 2, 3, 4})}}));
  const auto checkpoint = Checkpoint::Open(folder_.path(), StoredFormats());
  ASSERT_EQ(checkpoint->layers().size(), 2u);
  EXPECT_EQ(checkpoint->layers()[0].name, "model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_EQ(checkpoint->layers()[1].op, "Conv");
  EXPECT_EQ(checkpoint->weights()[1].channels.scale_count(), 1u);
  EXPECT_EQ(checkpoint->weights()[1].channels.channel_size(), 4u);
  EXPECT_EQ(checkpoint->weights()[0].channels.scale_count(), 12u);
  EXPECT_EQ(checkpoint->weights()[0].channels.channel_size(), 4u);
  EXPECT_EQ(checkpoint->parameter_count(), 52u);
}

TEST_F(CheckpointTest, ASingleFileHasNoConfig) {
  const auto checkpoint =
      Checkpoint::Open(kModels / "random-qwen2" / "model.safetensors", StoredFormats());
  EXPECT_FALSE(checkpoint->has_config());
  EXPECT_EQ(checkpoint->layers().size(), 22u);
}

TEST_F(CheckpointTest, Fp8BlocksAreOneProductPerValue) {
  const fs::path path = kModels / "random-deepseek-v3-fp8";
  const auto raw = test::ByName(test::TensorsOf(path / "model.safetensors"));
  const auto checkpoint = Checkpoint::Open(path, StoredFormats());
  const auto layers = LayersByName(*checkpoint);
  for (const std::string name :
       {"model.layers.0.mlp.gate_proj", "model.layers.1.self_attn.o_proj"}) {
    const Layer& layer = layers.at(name);
    const Tensor tensor = checkpoint->ReadWeight(layer.weight);
    ASSERT_EQ(tensor.view.dtype, DType::kF32);
    const auto& codes = raw.at(name + ".weight");
    const auto& scales = raw.at(name + ".weight_scale_inv");
    const std::vector<float> scale = test::FloatsOf(scales);
    const auto* values = reinterpret_cast<const float*>(tensor.view.data);
    for (int64_t r = 0; r < codes.shape[0]; ++r) {
      for (int64_t c = 0; c < codes.shape[1]; ++c) {
        const auto at = static_cast<size_t>(r * codes.shape[1] + c);
        const auto code = static_cast<uint8_t>(codes.data[at]);
        const int e = code >> 3 & 15;
        const int m = code & 7;
        const double magnitude = e == 0 ? m / 512.0 : (1 + m / 8.0) * std::pow(2.0, e - 7);
        const float value = static_cast<float>(code & 128 ? -magnitude : magnitude);
        const auto block = static_cast<size_t>(r / 128 * scales.shape[1] + c / 128);
        ASSERT_EQ(values[at], value * scale[block]) << name << " " << r << " " << c;
      }
    }
  }
  // The scales are no parameters, and no layers of their own.
  const auto bf16 = test::TensorsOf(path / "model.safetensors");
  uint64_t count = 0;
  for (const auto& t : bf16) {
    if (!t.name.ends_with("scale_inv")) {
      uint64_t n = 1;
      for (const int64_t d : t.shape) n *= static_cast<uint64_t>(d);
      count += n;
    }
  }
  EXPECT_EQ(checkpoint->parameter_count(), count);
}

TEST_F(CheckpointTest, Fp8WithOneScaleAndPerRow) {
  Put("model.safetensors",
      test::FileOf({{"a.weight", "F8_E4M3", {2, 2}, std::string("\x38\x40\xB8\x00", 4)},
                    {"a.weight_scale", "F32", {}, test::F32Bytes({0.5f})},
                    {"b.weight", "F8_E4M3", {2, 2}, std::string("\x38\x38\x38\x38", 4)},
                    {"b.weight_scale", "BF16", {2, 1}, test::Bf16Bytes({2, 3})},
                    {"b.input_scale", "F32", {1}, test::F32Bytes({1})}}));
  const auto checkpoint = Checkpoint::Open(folder_.path(), StoredFormats());
  ASSERT_EQ(checkpoint->weights().size(), 2u);
  std::vector<float> buffer;
  Tensor tensor = checkpoint->ReadWeight(0);
  auto values = AsFloats(tensor.view, &buffer);
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
            (std::vector<float>{0.5f, 1, -0.5f, 0}));
  tensor = checkpoint->ReadWeight(1);
  values = AsFloats(tensor.view, &buffer);
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{2, 2, 3, 3}));
  EXPECT_EQ(checkpoint->parameter_count(), 8u);
}

TEST_F(CheckpointTest, OtherQuantizedCheckpointsAreRefusedByName) {
  const std::string plain = test::FileOf({{"a.weight", "F32", {1, 1}, test::F32Bytes({1})}});
  Put("model.safetensors", plain);
  const std::pair<std::string, std::string> configs[] = {
      {R"({"quant_method":"gptq","bits":4})", "gptq"},
      {R"({"quant_method":"awq"})", "awq"},
      {R"({"quant_method":"bitsandbytes"})", "bitsandbytes"},
      {R"({"bits":4})", "without quant_method"},
      {R"({"quant_method":"compressed-tensors","format":"marlin-24"})", "marlin-24"},
      {R"({"quant_method":"compressed-tensors","format":"float-quantized","number_format":"x8"})",
       "x8"},
      {R"({"quant_method":"fp8","fmt":"e5m2"})", "e5m2"}};
  for (const auto& [quantization, name] : configs) {
    Put("config.json", "{\"quantization_config\":" + quantization + "}");
    EXPECT_THAT(ErrorOf(), HasSubstr("already quantized")) << quantization;
    EXPECT_THAT(ErrorOf(), HasSubstr(name));
  }
  fs::remove(folder_.path() / "config.json");
  const test::RawTensor tensors[] = {{"a.qweight", "I32", {1, 1}, "abcd"},
                                     {"a.weight", "I8", {1, 2}, "ab"},
                                     {"a.weight", "U8", {1, 2}, "ab"},
                                     {"a.weight_packed", "U8", {1, 2}, "ab"}};
  for (const test::RawTensor& tensor : tensors) {
    Put("model.safetensors", test::FileOf({tensor}));
    EXPECT_THAT(ErrorOf(), HasSubstr("already quantized")) << tensor.name << tensor.dtype;
    EXPECT_THAT(ErrorOf(), HasSubstr("'" + tensor.name + "'"));
  }
}

TEST_F(CheckpointTest, Fp8WithoutOrWithWrongScalesIsRefused) {
  Put("model.safetensors", test::FileOf({{"a.weight", "F8_E4M3", {1, 2}, "ab"}}));
  EXPECT_THAT(ErrorOf(), HasSubstr("has no 'a.weight_scale_inv'"));
  Put("model.safetensors",
      test::FileOf({{"a.weight", "F8_E4M3", {1, 2}, "ab"},
                    {"a.weight_scale_inv", "F32", {2, 2}, test::F32Bytes({1, 1, 1, 1})}}));
  try {
    Checkpoint::Open(folder_.path(), StoredFormats())->ReadWeight(0);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("'a.weight'"));
    EXPECT_THAT(error.message(), HasSubstr("[2, 2]"));
  }
}

TEST_F(CheckpointTest, InconsistentFoldersAreOneClearError) {
  EXPECT_THAT(ErrorOf(), HasSubstr("found none"));
  const std::string a = test::FileOf({{"a.weight", "F32", {1, 1}, test::F32Bytes({1})}});
  Put("x-00001.safetensors", a);
  Put("x-00002.safetensors", a);
  EXPECT_THAT(ErrorOf(), HasSubstr("'a.weight' is in two shards, x-00001.safetensors and x-00002"));

  const std::string index = "model.safetensors.index.json";
  Put(index, R"({"weight_map":{"a.weight":"x-00001.safetensors"}})");
  EXPECT_EQ(ErrorOf(), "");  // the other file is none of the checkpoint's
  Put(index, R"({"weight_map":{"a.weight":"x-00001.safetensors","b":"x-00003.safetensors"}})");
  EXPECT_THAT(ErrorOf(), HasSubstr("shard 'x-00003.safetensors' is missing"));
  Put(index, R"({"weight_map":{"a.weight":"x-00001.safetensors","b":"x-00001.safetensors"}})");
  EXPECT_THAT(ErrorOf(), HasSubstr("tensor 'b' is not in its shard 'x-00001.safetensors'"));
  for (const char* bad : {"../x-00001.safetensors", "/etc/passwd", "..", ""}) {
    Put(index, std::string(R"({"weight_map":{"a.weight":")") + bad + "\"}}");
    EXPECT_THAT(ErrorOf(), HasSubstr("file name of this folder")) << bad;
  }
  for (const char* bad : {"", "[]", "{}", "{\"weight_map\":3}", "{\"weight_map\":{\"a\":3}}"}) {
    Put(index, bad);
    EXPECT_NE(ErrorOf(), "") << bad;
  }
}

TEST_F(CheckpointTest, BrokenConfigs) {
  Put("model.safetensors", test::FileOf({{"a.weight", "F32", {1, 1}, test::F32Bytes({1})}}));
  for (const std::string& bad :
       {std::string("{"), std::string("[]"), std::string("{\"torch_dtype\":3}"),
        std::string("{\"quantization_config\":7}"), "{\"a\":" + std::string(100'000, '['),
        "{\"a\":" + std::string(5000, '[') + std::string(5000, ']') + "}"}) {
    Put("config.json", bad);
    EXPECT_NE(ErrorOf(), "") << bad.substr(0, 40);
  }
}

TEST_F(CheckpointTest, FingerprintFollowsTheBytesNotTheShards) {
  const test::RawTensor a = {"a.weight", "F32", {1, 1}, test::F32Bytes({1})};
  test::RawTensor b = {"b.weight", "F32", {1, 1}, test::F32Bytes({2})};
  Put("model.safetensors", test::FileOf({a, b}));
  const std::string together =
      Checkpoint::Open(folder_.path(), StoredFormats())->ComputeFingerprint().hash;
  fs::remove(folder_.path() / "model.safetensors");
  Put("x1.safetensors", test::FileOf({b}));
  Put("x2.safetensors", test::FileOf({a}));
  EXPECT_EQ(Checkpoint::Open(folder_.path(), StoredFormats())->ComputeFingerprint().hash, together);
  b.data[3] ^= 1;
  Put("x1.safetensors", test::FileOf({b}));
  EXPECT_NE(Checkpoint::Open(folder_.path(), StoredFormats())->ComputeFingerprint().hash, together);
}

}  // namespace
}  // namespace hif8
