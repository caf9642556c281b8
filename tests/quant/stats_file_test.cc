#include "lib/quant/stats_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/output_dir.h"

namespace hif8 {
namespace {

using testing::HasSubstr;

std::vector<float> Values(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

TensorView View(std::span<const float> values) {
  return {DType::kF32,
          {static_cast<int64_t>(values.size())},
          reinterpret_cast<const std::byte*>(values.data())};
}

// Two activations observed over `samples` samples of 50 values, from `begin` on.
StatsFile Observe(size_t begin, size_t samples) {
  StatsFile file;
  file.model = {"model.onnx (123 bytes)", "0123456789abcdef0123456789abcdef"};
  file.samples = samples;
  for (uint32_t i = 0; i < 2; ++i) {
    const std::vector<float> all = Values(20 * 50, 7 + i);
    if (samples == 0) continue;
    file.records["layer" + std::to_string(i)].Add(
        View(std::span(all).subspan(begin * 50, samples * 50)), samples);
  }
  return file;
}

Error ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return UsageError("", "");
}

TEST(StatsFile, SavedAndLoadedIsTheSame) {
  StatsFile file = Observe(0, 20);
  file.synthetic = true;
  const std::string bytes = SerializeStats(file);
  const StatsFile loaded = ParseStats(bytes, "f");
  EXPECT_EQ(SerializeStats(loaded), bytes);
  EXPECT_EQ(loaded.samples, 20U);
  EXPECT_TRUE(loaded.synthetic);
  EXPECT_EQ(loaded.model.files, file.model.files);
  EXPECT_EQ(loaded.records.at("layer1").samples(), 20U);
}

TEST(StatsFile, PartsMergeToTheWhole) {
  const std::string whole = SerializeStats(Observe(0, 20));
  StatsFile parts = Observe(0, 5);
  parts.Merge(Observe(5, 8), "");
  parts.Merge(Observe(13, 7), "");
  EXPECT_EQ(SerializeStats(parts), whole);

  // In another order everything but the trace is the same.
  StatsFile turned = Observe(13, 7);
  turned.Merge(Observe(0, 13), "");
  EXPECT_EQ(turned.samples, 20U);
  const TensorStats& a = parts.records.at("layer0");
  const TensorStats& b = turned.records.at("layer0");
  EXPECT_EQ(a.count(), b.count());
  EXPECT_EQ(a.amax(), b.amax());
  for (const double p : {1.0, 50.0, 99.0, 99.9}) EXPECT_EQ(a.Percentile(p), b.Percentile(p));
  EXPECT_EQ(a.trace()[0], b.trace()[7]);
}

TEST(StatsFile, ANameInOnePartOnly) {
  StatsFile one = Observe(0, 3);
  one.records.erase("layer1");
  StatsFile other = Observe(3, 4);
  other.records.erase("layer0");
  other.synthetic = true;
  one.Merge(std::move(other), "");
  EXPECT_EQ(one.records.at("layer0").samples(), 3U);
  EXPECT_EQ(one.records.at("layer1").samples(), 4U);
  EXPECT_EQ(one.samples, 7U);
  EXPECT_TRUE(one.synthetic);
}

TEST(StatsFile, AnotherModelIsNamed) {
  StatsFile other = Observe(0, 3);
  other.model = {"other.onnx (99 bytes)", "ffffffffffffffffffffffffffffffff"};
  StatsFile one = Observe(3, 4);
  const Error error = ErrorOf([&] { one.Merge(std::move(other), "b.stats"); });
  EXPECT_EQ(error.code(), ErrorCode::kModel);
  EXPECT_EQ(error.where(), "b.stats");
  for (const char* part : {"model.onnx", "0123456789abcdef", "other.onnx", "ffffffff"}) {
    EXPECT_THAT(error.message(), HasSubstr(part));
  }
}

TEST(StatsFile, FilesAreWrittenWholeAndReadInOrder) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "hif8_stats_file_test";
  std::filesystem::create_directories(folder);
  const std::vector<std::filesystem::path> paths = {folder / "a.stats", folder / "b.stats"};
  WriteStatsFile(paths[0], Observe(0, 12));
  WriteStatsFile(paths[1], Observe(12, 8));
  const StatsFile whole = Observe(0, 20);
  EXPECT_EQ(SerializeStats(ReadStatsFiles(paths, whole.model)), SerializeStats(whole));

  const Error other = ErrorOf([&] { ReadStatsFiles(paths, {"x.onnx", "00"}); });
  EXPECT_THAT(other.message(), HasSubstr("another model"));
  EXPECT_THAT(other.where(), HasSubstr("a.stats"));
  const std::vector<std::filesystem::path> missing = {folder / "none.stats"};
  EXPECT_THROW(ReadStatsFiles(missing, whole.model), Error);
  const Error unwritable = ErrorOf([&] { WriteStatsFile(folder / "no" / "c.stats", whole); });
  EXPECT_EQ(unwritable.code(), ErrorCode::kEnvironment);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
  std::filesystem::remove_all(folder);
}

TEST(StatsFile, WhatIsWrongIsSaid) {
  const std::string good = SerializeStats(Observe(0, 4));
  const auto message = [&](std::string bytes) {
    return ErrorOf([&] { ParseStats(bytes, "f"); }).message();
  };
  EXPECT_THAT(message(""), HasSubstr("expected a statistics file"));
  EXPECT_THAT(message("some text that is long enough to be one"), HasSubstr("something else"));
  EXPECT_THAT(message(good.substr(0, 10)), HasSubstr("within its header"));
  EXPECT_THAT(message(good.substr(0, good.size() - 1)),
              HasSubstr("truncated statistics file: " + std::to_string(good.size() - 1) + " of"));
  std::string version = good;
  version[8] = 9;
  EXPECT_THAT(message(version),
              HasSubstr("expected a statistics file of version 1, found version 9"));
  std::string damaged = good;
  damaged[good.size() / 2] = static_cast<char>(damaged[good.size() / 2] ^ 1);
  EXPECT_THAT(message(damaged), HasSubstr("checksum"));
  EXPECT_THAT(message(good + "x"), HasSubstr("checksum"));
}

// Damage that the checksum cannot see, because it was made before.
TEST(StatsFile, DamagedContentIsAnErrorOrAFile) {
  std::mt19937 random(1);
  const std::string good = SerializeStats(Observe(0, 4));
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_THROW(ParseStats(good.substr(0, n), "f"), Error);
  }
  for (int i = 0; i < 5000; ++i) {
    std::string content = good.substr(0, good.size() - 32);
    const size_t edits = 1 + random() % 3;
    for (size_t k = 0; k < edits; ++k) {
      const size_t range = random() % 2 == 0 ? content.size() - 20 : 150;
      content[20 + random() % range % (content.size() - 20)] = static_cast<char>(random());
    }
    if (random() % 4 == 0) {
      content.resize(20 + random() % (content.size() - 20));
      const uint64_t size = content.size() + 32;
      std::memcpy(content.data() + 12, &size, sizeof(size));
    }
    Hasher hasher;
    hasher.Update(content);
    try {
      const StatsFile file = ParseStats(content + hasher.Hex(), "f");
      EXPECT_EQ(ParseStats(SerializeStats(file), "f").records.size(), file.records.size());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
    }
  }
}

}  // namespace
}  // namespace hif8
