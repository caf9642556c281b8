#include "tests/fuzz/readers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/log.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/model/stored_model.h"
#include "lib/quant/checkpoint_exporter.h"
#include "lib/quant/compare_models.h"
#include "lib/quant/config.h"
#include "lib/quant/plan.h"
#include "lib/quant/weight_quantizer.h"
#include "tests/fuzz/fuzz.h"

namespace hif8 {
namespace {

constexpr uint64_t kMostData = 1 << 18;
constexpr uint64_t kMostEncoded = 1 << 16;  // values; encoding what is larger shows nothing new

void AppendNumber(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i)
    out->push_back(static_cast<char>(i < 8 ? value >> (8 * i) : 0));
}

// As zip has it: reflected, polynomial 0xEDB88320.
uint32_t Crc32(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

const ParseContext& Context() {
  static const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
  return context;
}

// Quantizes the weights and writes all files as a run of the program would; the result is a model.
void WriteAndCompare(const std::shared_ptr<const Checkpoint>& checkpoint, const QuantPlan& plan,
                     const std::filesystem::path& source) {
  std::map<int, FakeQuantize> activations;
  for (const auto& [index, operand] : plan.activations) {
    activations.emplace(index, operand.With(ScaleChoice{.scale = 1}));
  }
  const auto encode = [&](int index) {
    const WeightPlan& weight = plan.weights.at(index);
    const FloatSource values = checkpoint->OpenWeight(index);
    WeightScales solved =
        SolveWeight(checkpoint->weights()[static_cast<size_t>(index)].name, values, weight.layout,
                    *weight.rule, *weight.format, weight.params);
    return EncodeWeight(values, weight.layout, std::move(solved.scales), *weight.format,
                        solved.global_scale);
  };
  const std::filesystem::path folder = FuzzDir() / "written";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::function<EncodedWeight(int)> encoder = encode;
  static const QuantConfig config = LoadConfig("cast", {}, {}, Context());
  CheckpointExporter(checkpoint, BuiltinFormats(), config)
      .Write({.plan = plan, .activations = activations, .encode = encoder}, folder, NullLog());
  const auto original = OpenStoredModel(source, StoredFormats());
  const auto written = OpenStoredModel(folder, StoredFormats());
  CompareModels(*original, *written, StoredFormats(), NullLog());
}

}  // namespace

std::string SafetensorsBytes(std::string_view header) {
  uint64_t data = 0;
  const auto document = nlohmann::json::parse(header, nullptr, false);
  if (document.is_object()) {
    for (const auto& tensor : document) {
      const auto offsets = tensor.is_object() ? tensor.find("data_offsets") : tensor.end();
      if (!tensor.is_object() || offsets == tensor.end() || !offsets->is_array()) continue;
      for (const auto& offset : *offsets) {
        if (offset.is_number_unsigned()) data = std::max(data, offset.get<uint64_t>());
      }
    }
  }
  std::string bytes;
  AppendNumber(header.size(), 8, &bytes);
  bytes += header;
  // Small floats in most types: values that can be quantized.
  for (uint64_t i = 0; i < std::min(data, kMostData); ++i) {
    bytes.push_back(static_cast<char>(i % 2 == 0 ? i * 37 % 120 : 0x3c + i % 5));
  }
  return bytes;
}

std::string ZipBytes(std::span<const InputFile> members) {
  std::string archive;
  std::string directory;
  for (const InputFile& member : members) {
    const size_t at = archive.size();
    std::string common;            // what a member's header and its entry in the directory share
    AppendNumber(20, 2, &common);  // version that is needed
    AppendNumber(0, 2 + 2 + 4, &common);  // flags, stored, no time
    AppendNumber(Crc32(member.bytes), 4, &common);
    AppendNumber(member.bytes.size(), 4, &common);  // compressed
    AppendNumber(member.bytes.size(), 4, &common);
    AppendNumber(member.name.size(), 2, &common);
    AppendNumber(0, 2, &common);  // no extra field
    archive += "PK\3\4" + common + member.name + member.bytes;
    directory += std::string("PK\1\2") + "\x14" + std::string(1, '\0') + common;
    AppendNumber(0, 2 + 2 + 2 + 4, &directory);  // comment, disk, attributes
    AppendNumber(at, 4, &directory);
    directory += member.name;
  }
  const size_t begin = archive.size();
  archive += directory + "PK\5\6";
  AppendNumber(0, 4, &archive);
  AppendNumber(members.size(), 2, &archive);
  AppendNumber(members.size(), 2, &archive);
  AppendNumber(directory.size(), 4, &archive);
  AppendNumber(begin, 4, &archive);
  AppendNumber(0, 2, &archive);
  return archive;
}

void Touch(const TensorView& view) {
  volatile uint8_t sum = 0;
  for (size_t i = 0; i < view.bytes(); ++i) {
    sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(view.data[i]));
  }
}

void UseStats(const TensorStats& stats) {
  double total = 0;
  for (const MagnitudeBin& bin : stats.Bins()) {
    Require(bin.count > 0 && std::isfinite(bin.mean), "bins hold finite values");
    total += static_cast<double>(bin.count);
  }
  Require(total <= static_cast<double>(stats.count()) * (1 + 1e-9), "bins hold what was counted");
  stats.Percentile(50);
  stats.Percentile(100);
  stats.CountAbove(stats.amax() / 2);
  stats.Exponents();
}

void ReadCheckpoint(const std::filesystem::path& path) {
  const std::shared_ptr<const Checkpoint> checkpoint = Checkpoint::Open(path, StoredFormats());
  checkpoint->ComputeFingerprint();
  RunFuzzed([&] {
    const Network& network = checkpoint->network();
    const int64_t blocks = std::min<int64_t>(network.spec.blocks, 3);
    for (int64_t block = 0; block < blocks; ++block) network.Block(block, {});
  });
  static const QuantConfig config = LoadConfig("cast", {}, {}, Context());
  const QuantPlan plan = MakePlan(*checkpoint, config, Context());
  Summarize(*checkpoint, plan);
  uint64_t values = 0;
  for (const Weight& weight : checkpoint->weights()) values += weight.size();
  if (values <= kMostEncoded) WriteAndCompare(checkpoint, plan, path);
}

void ReadStored(const std::filesystem::path& path) {
  const auto model = OpenStoredModel(path, StoredFormats());
  for (size_t i = 0; i < model->tensors().size(); ++i) {
    if (!model->tensors()[i].HasValues()) continue;
    RunFuzzed([&] {
      TensorPieces pieces(*model, i, StoredFormats());
      const int64_t step = pieces.rows_per_piece();
      for (int64_t row = 0; row < pieces.rows(); row += step) {
        Touch(pieces.Read(row, std::min(pieces.rows(), row + step)).values);
      }
    });
  }
  CompareModels(*model, *model, StoredFormats(), NullLog());
}

}  // namespace hif8
