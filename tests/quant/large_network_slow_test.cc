// A network of a billion parameters is calibrated and measured in the memory of a few blocks.
#include <gtest/gtest.h>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/model/safetensors/checkpoint_writer.h"
#include "lib/quant/weight_quantizer.h"
#include "lib/runtime/checkpoint_source.h"
#include "tests/model/safetensors/raw_file.h"
#include "tests/quant/large_checkpoint.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1536,
  "intermediate_size": 4608, "num_hidden_layers": 28, "num_attention_heads": 16,
  "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
  "hidden_act": "silu", "tie_word_embeddings": true, "torch_dtype": "bfloat16"})";

// Writes tensors one after the other; the header comes last, so that it is known by then.
class Maker {
 public:
  explicit Maker(const fs::path& path) : path_(path), random_(test::RandomBf16(size_t{1} << 24)) {}

  void Add(const std::string& name, int64_t rows, int64_t columns) {
    const auto bytes = static_cast<uint64_t>(rows * columns * 2);
    const std::string shape =
        columns == 1 ? std::to_string(rows) : std::to_string(rows) + "," + std::to_string(columns);
    header_ += (header_.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":"BF16","shape":[)" + shape +
               R"(],"data_offsets":[)" + std::to_string(end_) + "," + std::to_string(end_ + bytes) +
               "]}";
    end_ += bytes;
  }

  uint64_t Finish() {
    header_ += "}";
    std::ofstream out(path_, std::ios::binary);
    out << test::LengthPrefix(header_.size()) << header_;
    for (uint64_t done = 0; done < end_; done += random_.size()) {
      out.write(random_.data(),
                static_cast<std::streamsize>(std::min<uint64_t>(random_.size(), end_ - done)));
    }
    return end_ / 2;
  }

 private:
  fs::path path_;
  std::string random_;
  std::string header_;
  uint64_t end_ = 0;
};

uint64_t MakeQwen3(const fs::path& folder) {
  test::WriteBytes(folder / "config.json", kConfig);
  Maker maker(folder / "model.safetensors");
  maker.Add("model.embed_tokens.weight", 151936, 1536);
  for (int i = 0; i < 28; ++i) {
    const std::string block = "model.layers." + std::to_string(i) + ".";
    maker.Add(block + "input_layernorm.weight", 1536, 1);
    maker.Add(block + "self_attn.q_proj.weight", 2048, 1536);
    maker.Add(block + "self_attn.k_proj.weight", 1024, 1536);
    maker.Add(block + "self_attn.v_proj.weight", 1024, 1536);
    maker.Add(block + "self_attn.o_proj.weight", 1536, 2048);
    maker.Add(block + "self_attn.q_norm.weight", 128, 1);
    maker.Add(block + "self_attn.k_norm.weight", 128, 1);
    maker.Add(block + "post_attention_layernorm.weight", 1536, 1);
    maker.Add(block + "mlp.gate_proj.weight", 4608, 1536);
    maker.Add(block + "mlp.up_proj.weight", 4608, 1536);
    maker.Add(block + "mlp.down_proj.weight", 1536, 4608);
  }
  maker.Add("model.norm.weight", 1536, 1);
  return maker.Finish();
}

TEST(LargeNetworkTest, ABillionParametersIn4GiB) {
  const test::TemporaryFolder from;
  const test::TemporaryFolder to;
  if (fs::space(from.path()).available < uint64_t{8} << 30) {
    GTEST_SKIP() << "SKIPPED: less than 8 GiB free on the disk";
  }
  const uint64_t parameters = MakeQwen3(from.path());
  ASSERT_GT(parameters, 1'000'000'000u);
  const auto checkpoint = Checkpoint::Open(from.path(), StoredFormats());
  EXPECT_EQ(checkpoint->parameter_count(), parameters);

  TokenData data;
  data.source = "random ids";
  std::mt19937 random(1);
  for (int i = 0; i < 8; ++i) {
    data.samples.emplace_back();
    for (int t = 0; t < 256; ++t) data.samples.back().push_back(random() % 151936);
  }
  const test::MemoryWatch memory;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  TokenData few = data;
  few.samples.resize(1);
  few.samples[0].resize(32);
  CheckpointSource source(checkpoint, {data, few}, BuiltinFormats(), NullLog());
  CheckpointPlan plan;
  std::vector<int> wanted;
  for (size_t i = 0; i < checkpoint->layers().size(); ++i) {
    const Layer& layer = checkpoint->layers()[i];
    if (layer.optional || layer.weight < 0) continue;
    plan.layers[static_cast<int>(i)].weight_format = &BuiltinFormats().Get("hif8");
    wanted.push_back(layer.activation);
  }
  EXPECT_EQ(plan.layers.size(), 28u * 7u);
  const std::vector<TensorStats> stats = source.Collect(wanted);
  const double collected = seconds();
  std::map<int, QuantizedActivation> activations;
  for (const int index : wanted) {
    const TensorStats& record = stats[static_cast<size_t>(index)];
    EXPECT_EQ(record.samples(), 8u);
    activations[index] = {{&BuiltinFormats().Get("hif8"), record.amax() / 16}, record.amax()};
  }
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  ScaleParams params;
  params.target = 16;
  const auto encode = [&](int index) {
    const Weight& weight = checkpoint->weights()[static_cast<size_t>(index)];
    const Tensor tensor = checkpoint->ReadWeight(index);
    WeightScales scales = SolveWeight(weight.name, tensor.view, weight.channels,
                                      BuiltinCalibrators().Get("max"), format, params);
    return EncodeWeight(tensor.view, weight.channels, std::move(scales.scales), format);
  };
  WriteCheckpoint(*checkpoint, plan, BuiltinFormats(), encode, to.path(), NullLog());
  const double written = seconds();
  const LayerSet layers(checkpoint->layers().size(), true);
  const Measurement m = source.Measure(to.path(), activations, layers);
  EXPECT_GT(m.outputs.at(0).error.SqnrDb(), 10);
  EXPECT_LT(memory.peak(), uint64_t{4} << 30);
  std::printf(
      "%.2f G parameters: calibrated in %.0f s, written in %.0f s, measured in %.0f s, own "
      "memory %.0f MiB\n",
      static_cast<double>(parameters) / 1e9, collected, written - collected, seconds() - written,
      static_cast<double>(memory.peak()) / (1 << 20));
}

}  // namespace
}  // namespace hif8
