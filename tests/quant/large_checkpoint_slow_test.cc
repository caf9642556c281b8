// A checkpoint of 4 GB is quantized weight-only in bounded memory, and goes on after a kill.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/mapped_file.h"
#include "lib/core/resume_list.h"
#include "lib/model/safetensors/checkpoint_writer.h"
#include "lib/quant/weight_quantizer.h"
#include "tests/model/safetensors/raw_file.h"
#include "tests/quant/large_checkpoint.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

constexpr int kShards = 4;
constexpr int kMatrices = 8;  // of each shard
constexpr int64_t kRows = 8192;
constexpr int64_t kColumns = 8192;  // 128 MiB of BF16

void MakeCheckpoint(const fs::path& folder) {
  const std::string matrix = test::RandomBf16(size_t{2} * kRows * kColumns);
  test::WriteBytes(folder / "config.json", R"({"model_type": "synthetic"})");
  std::string map;
  for (int s = 0; s < kShards; ++s) {
    const std::string file = "model-" + std::to_string(s) + ".safetensors";
    std::string header;
    for (int m = 0; m < kMatrices; ++m) {
      const std::string name =
          "layers." + std::to_string(s * kMatrices + m) + ".mlp.up_proj.weight";
      header += (m == 0 ? "{\"" : ",\"") + name + R"(":{"dtype":"BF16","shape":[)" +
                std::to_string(kRows) + "," + std::to_string(kColumns) + R"(],"data_offsets":[)" +
                std::to_string(static_cast<size_t>(m) * matrix.size()) + "," +
                std::to_string(static_cast<size_t>(m + 1) * matrix.size()) + "]}";
      map += (map.empty() ? "\"" : ",\"") + name + "\":\"" + file + "\"";
    }
    header += "}";
    std::ofstream out(folder / file, std::ios::binary);
    out << test::LengthPrefix(header.size()) << header;
    for (int m = 0; m < kMatrices; ++m) out << matrix;
  }
  test::WriteBytes(folder / "model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
}

void Quantize(const fs::path& from, const fs::path& to, std::atomic<int>* encoded) {
  const auto checkpoint = Checkpoint::Open(from, StoredFormats());
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  const Calibrator& rule = BuiltinCalibrators().Get("max");
  CheckpointPlan plan;
  for (size_t i = 0; i < checkpoint->layers().size(); ++i) {
    plan.layers[static_cast<int>(i)].weight_format = &format;
  }
  const auto encode = [&](int index) {
    const Weight& weight = checkpoint->weights()[static_cast<size_t>(index)];
    const Tensor tensor = checkpoint->ReadWeight(index);
    ScaleParams params;
    params.target = 16;
    WeightScales scales =
        SolveWeight(weight.name, tensor.view, weight.channels, rule, format, params);
    ++*encoded;
    return EncodeWeight(tensor.view, weight.channels, std::move(scales.scales), format);
  };
  WriteCheckpoint(*checkpoint, plan, BuiltinFormats(), encode, to, NullLog());
}

TEST(LargeCheckpointTest, WeightOnlyIn1GiBAndResumedAfterAKill) {
  const test::TemporaryFolder from;
  const test::TemporaryFolder to;
  constexpr uint64_t kBytes = uint64_t{2} * kRows * kColumns * kMatrices * kShards;
  if (fs::space(from.path()).available < 2 * kBytes) {
    GTEST_SKIP() << "SKIPPED: less than " << 2 * kBytes << " bytes free on the disk";
  }
  MakeCheckpoint(from.path());
  const auto shard = [&](int s) {
    return to.path() / ("model-" + std::to_string(s) + ".safetensors");
  };
  std::atomic<int> encoded = 0;

  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Quantize(from.path(), to.path(), &encoded);
    ::_exit(0);
  }
  while (!fs::exists(shard(1)) && ::waitpid(child, nullptr, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the first run was done before it was killed";
  ASSERT_TRUE(fs::exists(shard(0)));
  ASSERT_FALSE(fs::exists(shard(kShards - 1)));
  const auto first = fs::last_write_time(shard(0));

  test::MemoryWatch memory;
  const auto start = std::chrono::steady_clock::now();
  Quantize(from.path(), to.path(), &encoded);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const uint64_t peak = memory.Stop();
  EXPECT_EQ(fs::last_write_time(shard(0)), first);
  EXPECT_LE(encoded, (kShards - 1) * kMatrices);
  EXPECT_GE(encoded, kMatrices);
  EXPECT_TRUE(fs::exists(shard(kShards - 1)));
  EXPECT_LT(peak, uint64_t{1} << 30);
  std::printf("%d of %d weights after the kill, %.1f s, %.2f GB/s of input, own memory %.0f MiB\n",
              encoded.load(), kShards * kMatrices, seconds.count(),
              static_cast<double>(encoded) / (kShards * kMatrices) * static_cast<double>(kBytes) /
                  seconds.count() / 1e9,
              static_cast<double>(peak) / (1 << 20));
}

// One scale for all values of a tensor of 1 GiB, which would be 2 GiB as fp32.
TEST(LargeCheckpointTest, OneScaleForATensorOf1GiB) {
  const test::TemporaryFolder folder;
  constexpr size_t kPart = size_t{64} << 20;
  constexpr size_t kParts = 16;
  if (fs::space(folder.path()).available < 2 * kPart * kParts) {
    GTEST_SKIP() << "SKIPPED: less than " << 2 * kPart * kParts << " bytes free on the disk";
  }
  std::vector<float> magnitudes(kPart / 2);
  {
    const std::string part = test::RandomBf16(kPart);
    std::ofstream out(folder.path() / "values", std::ios::binary);
    for (size_t i = 0; i < kParts; ++i) out << part;
    for (size_t i = 0; i < magnitudes.size(); ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, &part[2 * i], 2);
      magnitudes[i] = std::bit_cast<float>(uint32_t{bits & 0x7FFFU} << 16);
    }
  }
  // The same values over and over have the percentile of one part of them.
  const auto nth =
      magnitudes.begin() + (static_cast<int64_t>(magnitudes.size()) * 97 + 99) / 100 - 1;
  std::nth_element(magnitudes.begin(), nth, magnitudes.end());
  const float percentile = *nth;
  const float amax = *std::max_element(magnitudes.begin(), magnitudes.end());
  magnitudes = {};
  magnitudes.shrink_to_fit();

  const auto file = MappedFile::Open(folder.path() / "values");
  const TensorView weight{
      DType::kBF16, {static_cast<int64_t>(kPart / 2 * kParts)}, file->bytes().data()};
  const ChannelLayout layout = ChannelLayout::PerTensor(weight.size());
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  ScaleParams params;
  params.percentile = 97;
  test::MemoryWatch memory;
  const auto solve = [&](const char* rule) {
    return SolveWeight("w", weight, layout, BuiltinCalibrators().Get(rule), format, params);
  };
  EXPECT_EQ(solve("max").scales[0], amax / 16);
  EXPECT_EQ(solve("percentile").scales[0], percentile / 16);
  const EncodedWeight by_max = EncodeWeight(weight, layout, solve("max").scales, format);
  const double max_error = MeasureWeight(weight, by_max, format).NoiseEnergy();
  EncodedWeight by_mse = EncodeWeight(weight, layout, solve("mse").scales, format);
  const uint64_t peak = memory.Stop();
  EXPECT_LE(MeasureWeight(weight, by_mse, format).NoiseEnergy(), max_error);
  // Twice the codes, which this test holds, and little beside them.
  EXPECT_LT(peak, (uint64_t{1} << 30) + (uint64_t{64} << 20));
  std::printf("own memory %.0f MiB, 1024 of it codes\n", static_cast<double>(peak) / (1 << 20));
}

}  // namespace
}  // namespace hif8
