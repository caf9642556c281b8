#include "lib/model/safetensors/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <set>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/core/output_dir.h"
#include "lib/core/resume_list.h"
#include "lib/model/safetensors/written_checkpoint.h"
#include "tests/model/safetensors/checkpoint_files.h"
#include "tests/paths.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const fs::path kModels = fs::path(HIF8_TEST_DATA_DIR) / "models";

// Codes are whole numbers: value = code - 128. Simple enough to be computed by hand in the tests.
class WholeNumbers : public NumberFormat {
 public:
  WholeNumbers() {
    for (int i = 0; i < 256; ++i) table_[i] = static_cast<float>(i - 128);
  }
  std::string_view name() const override { return "whole"; }
  std::string_view description() const override { return "whole numbers"; }
  std::span<const float> DecodeTable() const override { return table_; }
  float OverflowThreshold() const override { return 127.5f; }
  float DefaultTarget() const override { return 100; }
  uint8_t EncodeOne(float x, Overflow) const override {
    return static_cast<uint8_t>(std::nearbyint(x) + 128);
  }
  void Encode(DType, const std::byte*, ScaleOperand, std::span<uint8_t>, Overflow) const override {}
  void Decode(std::span<const uint8_t> codes, ScaleOperand scale,
              std::span<float> y) const override {
    for (size_t i = 0; i < codes.size(); ++i) {
      y[i] = table_[codes[i]] * scale.values[scale.per_value ? i : 0];
    }
  }
  void QuantizeDequantize(std::span<const float>, ScaleOperand, std::span<float>) const override {}

 private:
  float table_[256];
};

const WholeNumbers kWhole;

const FormatRegistry& Formats() {
  static FormatRegistry registry("number format");
  if (registry.names().empty()) registry.Add("whole", std::make_shared<WholeNumbers>());
  return registry;
}

// Scale of a row: its largest magnitude / 100, rounded to bf16; codes by WholeNumbers.
EncodedWeight EncodeRows(const std::vector<float>& values, const ChannelLayout& layout) {
  EncodedWeight encoded;
  encoded.format = "whole";
  encoded.layout = layout;
  for (size_t s = 0; s < layout.scale_count(); ++s) {
    float amax = 0;
    for (size_t i = 0; i < layout.inner; ++i) {
      amax = std::max(amax, std::fabs(values[s * layout.inner + i]));
    }
    const float scale =
        test::FloatsOf({"", "BF16", {}, test::Bf16Bytes({amax > 0 ? amax / 100 : 1})})[0];
    encoded.scales.push_back(scale);
    for (size_t i = 0; i < layout.inner; ++i) {
      encoded.codes.push_back(
          static_cast<uint8_t>(std::nearbyint(values[s * layout.inner + i] / scale) + 128));
    }
  }
  return encoded;
}

WeightEncoder Encoder(const Checkpoint& checkpoint, std::vector<std::string>* seen = nullptr) {
  return [&checkpoint, seen](int index) {
    const Weight& weight = checkpoint.weights()[static_cast<size_t>(index)];
    if (seen != nullptr) seen->push_back(weight.name);
    std::vector<float> buffer;
    const Tensor tensor = checkpoint.ReadWeight(index);
    const auto values = AsFloats(tensor.view, &buffer);
    return EncodeRows({values.begin(), values.end()}, weight.channels);
  };
}

CheckpointPlan PlanAllLinear(const Checkpoint& checkpoint) {
  CheckpointPlan plan;
  LayerScheme scheme;
  scheme.weight_format = scheme.input_format = &kWhole;
  for (size_t i = 0; i < checkpoint.layers().size(); ++i) {
    const Layer& layer = checkpoint.layers()[i];
    if (layer.weight < 0 || layer.optional || !layer.unsupported.empty()) continue;
    plan.layers[static_cast<int>(i)] = scheme;
  }
  return plan;
}

int LayerIndex(const Checkpoint& checkpoint, const std::string& name) {
  for (size_t i = 0; i < checkpoint.layers().size(); ++i) {
    if (checkpoint.layers()[i].name == name) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no layer " << name;
  return -1;
}

class CheckpointWriterTest : public ::testing::Test {
 protected:
  void Write(const fs::path& model, const CheckpointPlan& plan) {
    const auto checkpoint = Checkpoint::Open(model, StoredFormats());
    WriteCheckpoint(*checkpoint, plan, Formats(), Encoder(*checkpoint), out_.path(), NullLog());
  }
  test::TemporaryFolder out_;
};

TEST_F(CheckpointWriterTest, SameShardsNamesAndOrderAndBytesOfWhatIsKept) {
  const fs::path model = kModels / "random-llama";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  CheckpointPlan plan = PlanAllLinear(*checkpoint);
  const int kept = LayerIndex(*checkpoint, "model.layers.1.mlp.up_proj");
  plan.layers.erase(kept);
  Write(model, plan);

  uint64_t total = 0;
  const auto index = Json::parse(test::ReadBytes(out_.path() / "model.safetensors.index.json"));
  for (const std::string file :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    std::vector<std::string> expected;
    const auto source = test::ByName(test::TensorsOf(model / file));
    for (const auto& t : test::TensorsOf(model / file)) {
      expected.push_back(t.name);
      const bool quantized =
          t.name.ends_with("_proj.weight") && t.name != "model.layers.1.mlp.up_proj.weight";
      if (quantized) expected.push_back(t.name + "_scale");
    }
    std::vector<std::string> names;
    for (const auto& t : test::TensorsOf(out_.path() / file)) {
      names.push_back(t.name);
      total += t.data.size();
      EXPECT_EQ(index["weight_map"][t.name], file);
      if (t.name.ends_with("_scale")) {
        EXPECT_EQ(t.dtype, "F32");
        EXPECT_EQ(t.shape, (std::vector<int64_t>{
                               source.at(t.name.substr(0, t.name.size() - 6)).shape[0], 1}));
      } else if (t.dtype == "U8") {
        EXPECT_EQ(t.shape, source.at(t.name).shape);
      } else {
        EXPECT_EQ(t.dtype, source.at(t.name).dtype);
        EXPECT_EQ(t.data, source.at(t.name).data);
      }
    }
    EXPECT_EQ(names, expected);
    EXPECT_THAT(test::ReadBytes(out_.path() / file),
                HasSubstr(R"("__metadata__":{"format":"pt"})"));
  }
  EXPECT_EQ(index["metadata"]["total_size"], total);
  EXPECT_EQ(test::ReadBytes(out_.path() / "reference.json"),
            test::ReadBytes(model / "reference.json"));
  EXPECT_EQ(test::ReadBytes(out_.path() / "reference.safetensors"),
            test::ReadBytes(model / "reference.safetensors"));
}

TEST_F(CheckpointWriterTest, CodesAndScalesAreWhatTheEncoderGave) {
  const fs::path model = kModels / "random-qwen2";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  CheckpointPlan plan = PlanAllLinear(*checkpoint);
  for (auto& [layer, scheme] : plan.layers) scheme.scale_dtype = DType::kBF16;
  const int q = LayerIndex(*checkpoint, "model.layers.2.self_attn.q_proj");
  plan.input_scales[q] = 0.375f;
  Write(model, plan);
  const auto written = test::ByName(test::TensorsOf(out_.path() / "model.safetensors"));
  for (const auto& t : test::TensorsOf(model / "model.safetensors")) {
    if (!t.name.ends_with("_proj.weight")) continue;
    const auto expected = EncodeRows(test::FloatsOf(t), {1, 1, static_cast<size_t>(t.shape[0]),
                                                         static_cast<size_t>(t.shape[1])});
    EXPECT_EQ(written.at(t.name).data, std::string(expected.codes.begin(), expected.codes.end()));
    EXPECT_EQ(written.at(t.name + "_scale").dtype, "BF16");
    EXPECT_EQ(test::FloatsOf(written.at(t.name + "_scale")), expected.scales);
  }
  const auto& input = written.at("model.layers.2.self_attn.q_proj.input_scale");
  EXPECT_EQ(input.dtype, "F32");
  EXPECT_EQ(input.shape, std::vector<int64_t>{1});
  EXPECT_EQ(test::FloatsOf(input), std::vector<float>{0.375f});
  EXPECT_FALSE(fs::exists(out_.path() / "model.safetensors.index.json"));

  const auto file = SafetensorsFile::Open(out_.path() / "model.safetensors");
  const Weight& weight =
      checkpoint
          ->weights()[static_cast<size_t>(checkpoint->layers()[static_cast<size_t>(q)].weight)];
  const WrittenWeight back = ReadWrittenWeight(*file, weight.name, kWhole, weight.channels);
  EXPECT_EQ(std::string(back.codes.begin(), back.codes.end()),
            written.at("model.layers.2.self_attn.q_proj.weight").data);
  EXPECT_EQ(back.scales,
            test::FloatsOf(written.at("model.layers.2.self_attn.q_proj.weight_scale")));
}

TEST_F(CheckpointWriterTest, ConfigGainsQuantizationConfigAndKeepsItsOrder) {
  const fs::path model = kModels / "random-qwen2";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  CheckpointPlan plan = PlanAllLinear(*checkpoint);
  plan.layers.erase(LayerIndex(*checkpoint, "model.layers.0.mlp.down_proj"));
  Write(model, plan);
  Json written = Json::parse(test::ReadBytes(out_.path() / "config.json"));
  const Json expected = Json::parse(R"({
    "quant_method": "compressed-tensors", "format": "whole-quantized",
    "quantization_status": "compressed", "global_compression_ratio": 1,
    "config_groups": {"group_0": {"targets": ["Linear"],
      "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true,
        "dynamic": false, "observer": "minmax", "observer_kwargs": {}, "group_size": null,
        "block_structure": null, "actorder": null},
      "input_activations": {"num_bits": 8, "type": "float", "strategy": "tensor",
        "symmetric": true, "dynamic": true, "observer": "memoryless", "observer_kwargs": {},
        "group_size": null, "block_structure": null, "actorder": null},
      "output_activations": null, "format": "whole-quantized"}},
    "ignore": ["lm_head", "model.layers.0.mlp.down_proj"],
    "kv_cache_scheme": null, "number_format": "whole"})");
  EXPECT_EQ(written["quantization_config"].dump(), expected.dump());
  written.erase("quantization_config");
  EXPECT_EQ(written.dump(), Json::parse(test::ReadBytes(model / "config.json")).dump());
}

TEST_F(CheckpointWriterTest, StaticScalesAndSchemesOfTheirOwn) {
  const fs::path model = kModels / "random-qwen2";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  CheckpointPlan plan = PlanAllLinear(*checkpoint);
  for (auto& [layer, scheme] : plan.layers) scheme.input_dynamic = false;
  const int other = LayerIndex(*checkpoint, "model.layers.0.mlp.down_proj");
  plan.layers.at(other).weight_format = &BuiltinFormats().Get("fp8_e4m3");
  Write(model, plan);
  const Json config =
      Json::parse(test::ReadBytes(out_.path() / "config.json"))["quantization_config"];
  EXPECT_EQ(config["format"], "whole-quantized");
  const Json& groups = config["config_groups"];
  EXPECT_EQ(groups["group_0"]["input_activations"]["dynamic"], false);
  EXPECT_EQ(groups["group_0"]["input_activations"]["observer"], "minmax");
  EXPECT_EQ(groups["group_1"]["targets"], Json{"model.layers.0.mlp.down_proj"});
  EXPECT_EQ(config["number_format"], "whole");
  EXPECT_EQ(test::ByName(test::TensorsOf(out_.path() / "model.safetensors"))
                .at("model.layers.0.mlp.down_proj.weight")
                .dtype,
            "F8_E4M3");
}

TEST_F(CheckpointWriterTest, Fp8InputLosesItsOldQuantization) {
  const fs::path model = kModels / "random-deepseek-v3-fp8";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  CheckpointPlan plan = PlanAllLinear(*checkpoint);
  const std::string kept = "model.layers.0.mlp.gate_proj";
  plan.layers.erase(LayerIndex(*checkpoint, kept));
  Write(model, plan);
  const auto written = test::ByName(test::TensorsOf(out_.path() / "model.safetensors"));
  const auto source = test::ByName(test::TensorsOf(model / "model.safetensors"));
  for (const auto& [name, tensor] : written) {
    EXPECT_FALSE(name.ends_with("weight_scale_inv")) << name;
    EXPECT_NE(tensor.dtype, "F8_E4M3") << name;
  }
  for (const auto& [name, tensor] : source) {
    EXPECT_TRUE(name.ends_with("_scale_inv") || written.contains(name)) << name;
  }
  const auto& bf16 = written.at(kept + ".weight");
  EXPECT_EQ(bf16.dtype, "BF16");
  EXPECT_EQ(bf16.shape, source.at(kept + ".weight").shape);
  const Tensor values = checkpoint->ReadWeight(checkpoint->Find(kept + ".weight")->weight);
  const auto* floats = reinterpret_cast<const float*>(values.view.data);
  EXPECT_EQ(bf16.data, test::Bf16Bytes({floats, floats + values.view.size()}));
  const Json config = Json::parse(test::ReadBytes(out_.path() / "config.json"));
  EXPECT_EQ(config["quantization_config"]["quant_method"], "compressed-tensors");
  EXPECT_FALSE(config["quantization_config"].contains("weight_block_size"));
  const auto ignore = config["quantization_config"]["ignore"].get<std::set<std::string>>();
  EXPECT_EQ(ignore, (std::set<std::string>{"lm_head", kept, "model.layers.1.mlp.gate",
                                           "model.layers.2.mlp.gate"}));
}

TEST_F(CheckpointWriterTest, SimulatedHoldsDecodedValuesInTheOwnType) {
  const fs::path model = kModels / "random-mistral-window";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  CheckpointPlan plan = PlanAllLinear(*checkpoint);
  plan.simulated = true;
  Write(model, plan);
  const auto source = test::TensorsOf(model / "model.safetensors");
  const auto written = test::TensorsOf(out_.path() / "model.safetensors");
  ASSERT_EQ(source.size(), written.size());
  for (size_t i = 0; i < source.size(); ++i) {
    EXPECT_EQ(written[i].name, source[i].name);
    EXPECT_EQ(written[i].dtype, "BF16");
    if (!source[i].name.ends_with("_proj.weight")) {
      EXPECT_EQ(written[i].data, source[i].data);
      continue;
    }
    const auto inner = static_cast<size_t>(source[i].shape[1]);
    const auto encoded = EncodeRows(test::FloatsOf(source[i]),
                                    {1, 1, static_cast<size_t>(source[i].shape[0]), inner});
    std::vector<float> decoded;
    for (size_t k = 0; k < encoded.codes.size(); ++k) {
      decoded.push_back((static_cast<float>(encoded.codes[k]) - 128) * encoded.scales[k / inner]);
    }
    EXPECT_EQ(written[i].data, test::Bf16Bytes(decoded));
  }
  EXPECT_EQ(Json::parse(test::ReadBytes(out_.path() / "config.json")).dump(),
            Json::parse(test::ReadBytes(model / "config.json")).dump());
}

TEST_F(CheckpointWriterTest, FinishedShardsOfAnInterruptedRunAreTakenOver) {
  const fs::path model = kModels / "random-llama";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  const CheckpointPlan plan = PlanAllLinear(*checkpoint);
  const std::string first = "model-00001-of-00002.safetensors";
  const std::string second = "model-00002-of-00002.safetensors";
  // The run breaks off in the second shard.
  const auto broken = [&](int index) {
    if (checkpoint->weights()[static_cast<size_t>(index)].name.find("layers.2") !=
        std::string::npos) {
      throw Error(ErrorCode::kInterrupted, "interrupted", "run it again");
    }
    return Encoder(*checkpoint)(index);
  };
  EXPECT_THROW(WriteCheckpoint(*checkpoint, plan, Formats(), broken, out_.path(), NullLog()),
               Error);
  EXPECT_TRUE(fs::exists(out_.path() / first));
  EXPECT_FALSE(fs::exists(out_.path() / second));
  const std::string bytes = test::ReadBytes(out_.path() / first);

  std::vector<std::string> seen;
  std::vector<int> told;
  WriteCheckpoint(*checkpoint, plan, Formats(), Encoder(*checkpoint, &seen), out_.path(), NullLog(),
                  [&](const std::vector<int>& weights) {
                    // Those of the shard that was finished before come first, from a file too.
                    const fs::path file = out_.path() / (told.empty() ? first : second);
                    for (const int index : weights) {
                      const Weight& weight = checkpoint->weights()[static_cast<size_t>(index)];
                      const WrittenWeight read = ReadWrittenWeight(
                          *SafetensorsFile::Open(file), weight.name, kWhole, weight.channels);
                      EXPECT_EQ(read.codes.size(), weight.size());
                    }
                    told.insert(told.end(), weights.begin(), weights.end());
                  });
  EXPECT_EQ(told.size(), 21u);
  EXPECT_EQ(std::set<int>(told.begin(), told.end()).size(), 21u);
  EXPECT_EQ(seen.size(), 10u);  // of 21: 3 in block 1 and 7 in block 2
  EXPECT_EQ(test::ReadBytes(out_.path() / first), bytes);
  EXPECT_TRUE(fs::exists(out_.path() / second));

  // Another recipe, or other scales, and nothing is taken over.
  for (int change = 0; change < 2; ++change) {
    CheckpointPlan other = plan;
    if (change == 0) other.fingerprint = "other";
    if (change == 1) other.input_scales[plan.layers.begin()->first] = 2;
    seen.clear();
    WriteCheckpoint(*checkpoint, other, Formats(), Encoder(*checkpoint, &seen), out_.path(),
                    NullLog());
    EXPECT_GE(seen.size(), 11u);
  }
}

TEST_F(CheckpointWriterTest, ABareFileGetsAConfigOfItsOwn) {
  const fs::path model = kModels / "random-qwen2" / "model.safetensors";
  Write(model, PlanAllLinear(*Checkpoint::Open(model, StoredFormats())));
  const Json config = Json::parse(test::ReadBytes(out_.path() / "config.json"));
  EXPECT_EQ(config.size(), 1u);
  EXPECT_EQ(config["quantization_config"]["number_format"], "whole");
}

TEST_F(CheckpointWriterTest, MoreWeightsThanFitAheadAndErrorsOfTheEncoder) {
  const fs::path model = kModels / "random-qwen3-moe";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  const auto failing = [](int) -> EncodedWeight {
    throw ModelError("value 3 is NaN", "repair it");
  };
  try {
    WriteCheckpoint(*checkpoint, PlanAllLinear(*checkpoint), Formats(), failing, out_.path(),
                    NullLog());
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "value 3 is NaN");
  }
}

TEST(ResumableOutputDirTest, KeepsFinishedFilesOnlyAndAppearsAtomically) {
  const test::TemporaryFolder folder;
  const fs::path target = folder.path() / "out";
  {
    const OutputDir dir(target, false, OutputDir::Unfinished::kKeep);
    test::WriteBytes(dir.path() / "half", "x");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));  // nothing was finished: nothing stays
  fs::path kept;
  {
    const OutputDir dir(target, false, OutputDir::Unfinished::kKeep);
    kept = dir.path();
    EXPECT_THROW(OutputDir(target, false, OutputDir::Unfinished::kKeep), Error);  // locked
    ResumeList list(dir.path());
    test::WriteBytes(dir.path() / "whole", "abc");
    list.Add("whole", "f1");
    test::WriteBytes(dir.path() / "half", "x");
  }
  EXPECT_FALSE(fs::exists(target));
  EXPECT_TRUE(fs::exists(kept / "whole"));
  {
    OutputDir dir(target, false, OutputDir::Unfinished::kKeep);
    const ResumeList list(dir.path());
    EXPECT_TRUE(list.IsFinished("whole", "f1"));
    EXPECT_FALSE(list.IsFinished("whole", "f2"));
    EXPECT_FALSE(fs::exists(dir.path() / "half"));
    dir.Commit();
  }
  EXPECT_EQ(test::ReadBytes(target / "whole"), "abc");
  EXPECT_FALSE(fs::exists(kept));
  EXPECT_FALSE(fs::exists(target / ResumeList::kFileName));
}

}  // namespace
}  // namespace hif8
