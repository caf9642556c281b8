// Speed of the statistics and of the scale search, as ratios within one run; JSON on stdout.
//   stats_bench [ROUNDS]
#include <bit>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/parallel.h"
#include "lib/numeric/block_scale.h"
#include "lib/numeric/error_metrics.h"
#include "lib/numeric/tensor_stats.h"
#include "lib/quant/weight_quantizer.h"
#include "tests/bench/bench_util.h"

namespace hif8 {
namespace {

std::vector<float> Normal(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

TensorView View(const std::vector<float>& values) {
  return {DType::kF32,
          {static_cast<int64_t>(values.size())},
          reinterpret_cast<const std::byte*>(values.data())};
}

nlohmann::json Report(const std::vector<Contender>& contenders, double elements) {
  nlohmann::json out;
  for (const Contender& c : contenders) out[c.name + "_gelem_per_s"] = elements / c.seconds * 1e-9;
  return out;
}

// The record against a bare loop that only increments the same bins.
nlohmann::json BenchRecord(const std::vector<float>& values, int rounds) {
  SetThreads(1);
  std::vector<uint64_t> bins(1 << 15);
  TensorStats stats;
  std::vector<Contender> contenders = {{"bare_loop",
                                        [&] {
                                          for (const float v : values)
                                            ++bins[(std::bit_cast<uint32_t>(v) & 0x7fffffff) >> 16];
                                          Keep(bins.data());
                                        }},
                                       {"record", [&] { stats.Add(View(values)); }}};
  RunInTurns(contenders, rounds, Clock::kThread);
  nlohmann::json out = Report(contenders, static_cast<double>(values.size()));
  out["record_to_bare_loop"] = contenders[0].seconds / contenders[1].seconds;
  out["goal"] = ">= 0.7";
  return out;
}

// Scale search over a weight [channels, size]: alone, with encoding, and with the measuring of the
// codes that follows; all in memory.
nlohmann::json BenchSearch(const TensorView& weight, size_t size, int threads, int rounds) {
  SetThreads(threads);
  const ChannelLayout layout{1, 1, weight.size() / size, size};
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  const auto solve = [&](const char* rule) {
    const Calibrator& calibrator = BuiltinCalibrators().Get(rule);
    std::vector<float> scales(layout.channels);
    ForEachTile(weight, TileLayout(layout), [&](size_t c, std::span<const float> channel) {
      scales[c] = calibrator.Solve(channel, format, ScaleParams()).scale;
    });
    Keep(scales.data());
  };
  const auto quantize = [&](const char* rule, bool measure) {
    const Calibrator& calibrator = BuiltinCalibrators().Get(rule);
    WeightScales found = SolveWeight("w", weight, layout, calibrator, format, ScaleParams());
    const EncodedWeight encoded = EncodeWeight(weight, layout, std::move(found.scales), format);
    Keep(encoded.codes.data());
    if (measure) Keep(MeasureWeight(weight, encoded, format));
  };
  std::vector<Contender> contenders = {{"max", [&] { solve("max"); }},
                                       {"mse", [&] { solve("mse"); }},
                                       {"max_and_encode", [&] { quantize("max", false); }},
                                       {"mse_and_encode", [&] { quantize("mse", false); }},
                                       {"max_to_report", [&] { quantize("max", true); }},
                                       {"mse_to_report", [&] { quantize("mse", true); }}};
  RunInTurns(contenders, rounds, threads == 1 ? Clock::kThread : Clock::kWall);
  nlohmann::json out = Report(contenders, static_cast<double>(weight.size()));
  out["dtype"] = std::string(DTypeName(weight.dtype));
  out["channel_size"] = size;
  out["threads"] = threads;
  out["mse_to_max_time_search_alone"] = contenders[1].seconds / contenders[0].seconds;
  out["mse_to_max_time_with_encoding"] = contenders[3].seconds / contenders[2].seconds;
  out["mse_to_max_time_end_to_end"] = contenders[5].seconds / contenders[4].seconds;
  return out;
}

nlohmann::json BenchMetrics(const std::vector<float>& values, int rounds) {
  std::vector<float> rounded = values;
  for (float& v : rounded) v *= 1.01F;
  std::vector<Contender> contenders = {{"error_metrics", [&] {
                                          ErrorMetrics metrics;
                                          metrics.Add(values, rounded);
                                          Keep(metrics);
                                        }}};
  SetThreads(1);
  RunInTurns(contenders, rounds);
  return Report(contenders, static_cast<double>(values.size()));
}

int Main(int rounds) {
  const std::vector<float> values = Normal(size_t{1} << 22);
  std::vector<float> half_zero = values;
  for (float& v : half_zero) v = std::max(v, 0.0F);
  nlohmann::json out;
  out["record"]["normal"] = BenchRecord(values, rounds);
  out["record"]["half_zero"] = BenchRecord(half_zero, rounds);
  std::vector<std::byte> narrow(values.size() * 2);
  ConvertFromFloat(DType::kBF16, values.data(), values.size(), narrow.data());
  const TensorView bf16{DType::kBF16, View(values).shape, narrow.data()};
  for (const int threads : {1, 2}) {
    for (const size_t size : {1024, 4096, 16384, 1 << 22}) {
      out["search"].push_back(BenchSearch(View(values), size, threads, rounds));
      out["search"].push_back(BenchSearch(bf16, size, threads, rounds));
    }
  }
  out["metrics"] = BenchMetrics(values, rounds);
  std::cout << out.dump(2) << '\n';
  return 0;
}

}  // namespace
}  // namespace hif8

int main(int argc, char** argv) { return hif8::Main(argc > 1 ? std::atoi(argv[1]) : 5); }
