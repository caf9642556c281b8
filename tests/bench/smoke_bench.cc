// The quickest look at what must not become slower: each kernel against a plain loop of the same
// work, in the caches, as ratios of thread time; JSON on stdout. smoke.py compares with recorded
// ones.
#include <hwy/targets.h>

#include <bit>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/parallel.h"
#include "lib/numeric/error_metrics.h"
#include "lib/numeric/tensor_stats.h"
#include "tests/bench/bench_util.h"
#include "tests/bench/plain_hif8.h"

namespace hif8 {
namespace {

constexpr size_t kCount = size_t{1} << 16;
constexpr int kRounds = 15;

struct Buffers {
  std::vector<float> x = std::vector<float>(kCount);
  std::vector<float> y = std::vector<float>(kCount);
  std::vector<std::byte> bf16 = std::vector<std::byte>(2 * kCount);
  std::vector<uint8_t> codes = std::vector<uint8_t>(kCount);
  std::vector<uint64_t> bins = std::vector<uint64_t>(1 << 15);
  float scale = 0.00371F;

  Buffers() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.02F);
    for (float& v : x) v = normal(random);
    ConvertFromFloat(DType::kBF16, x.data(), kCount, bf16.data());
  }
  TensorView view() const {
    return {DType::kF32, {kCount}, reinterpret_cast<const std::byte*>(x.data())};
  }
};

// How many times as fast `quick` is as `plain`; `times` of it take about as long.
template <typename Plain, typename Quick>
double Ratio(const Plain& plain, int times, const Quick& quick) {
  std::vector<Contender> contenders = {{"plain", plain}, {"quick", [&] {
                                                            for (int i = 0; i < times; ++i) quick();
                                                          }}};
  RunInTurns(contenders, kRounds, Clock::kThread);
  return times * contenders[0].seconds / contenders[1].seconds;
}

void PlainEncode(Buffers* b) {
  for (size_t i = 0; i < kCount; ++i) b->codes[i] = PlainHif8(b->x[i] / b->scale);
  Keep(b->codes.data());
}

void BareLoop(Buffers* b) {
  for (const float v : b->x) ++b->bins[(std::bit_cast<uint32_t>(v) & 0x7FFFFFFF) >> 16];
  Keep(b->bins.data());
}

nlohmann::json Ratios() {
  SetThreads(1);
  Buffers b;
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  const float one = 1;
  const auto encode = [&](DType dtype, const void* from, const float& scale) {
    format.Encode(dtype, static_cast<const std::byte*>(from), ScaleOperand::One(scale), b.codes);
    Keep(b.codes.data());
  };
  const auto plain_encode = [&] { PlainEncode(&b); };
  const auto bare_loop = [&] { BareLoop(&b); };
  const auto plain_decode = [&] {
    for (size_t i = 0; i < kCount; ++i) b.y[i] = format.DecodeTable()[b.codes[i]] * b.scale;
    Keep(b.y.data());
  };
  nlohmann::json out;
  out["encode_f32"] = Ratio(plain_encode, 200, [&] { encode(DType::kF32, b.x.data(), one); });
  out["encode_f32_scaled"] =
      Ratio(plain_encode, 200, [&] { encode(DType::kF32, b.x.data(), b.scale); });
  out["encode_bf16_scaled"] =
      Ratio(plain_encode, 200, [&] { encode(DType::kBF16, b.bf16.data(), b.scale); });
  out["quantize_dequantize"] = Ratio(plain_encode, 100, [&] {
    format.QuantizeDequantize(b.x, ScaleOperand::One(b.scale), b.y);
    Keep(b.y.data());
  });
  out["decode"] = Ratio(plain_decode, 4, [&] {
    format.Decode(b.codes, ScaleOperand::One(b.scale), b.y);
    Keep(b.y.data());
  });
  TensorStats stats;
  out["statistics_record"] = Ratio(bare_loop, 1, [&] { stats.Add(b.view()); });
  const Calibrator& mse = BuiltinCalibrators().Get("mse");
  out["mse_search_of_4096"] = Ratio(
      bare_loop, 1, [&] { Keep(mse.Solve(std::span(b.x).first(4096), format, ScaleParams())); });
  format.QuantizeDequantize(b.x, ScaleOperand::One(b.scale), b.y);
  const auto plain_metrics = [&] {
    double signal = 0;
    double noise = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const double d = static_cast<double>(b.x[i]) - static_cast<double>(b.y[i]);
      signal += static_cast<double>(b.x[i]) * static_cast<double>(b.x[i]);
      noise += d * d;
    }
    Keep(signal);
    Keep(noise);
  };
  out["error_metrics"] = Ratio(plain_metrics, 1, [&] {
    ErrorMetrics metrics;
    metrics.Add(b.x, b.y);
    Keep(metrics);
  });
  return out;
}

}  // namespace
}  // namespace hif8

int main() {
  const int64_t targets = hwy::SupportedTargets();
  const nlohmann::json out = {{"target", hwy::TargetName(targets & -targets)},
                              {"ratios", hif8::Ratios()}};
  std::cout << out.dump(1) << '\n';
}
