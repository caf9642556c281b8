// Speed of the HiF8 codec, as ratios within one run; JSON on stdout.
//   codec_bench [ROUNDS]
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "formats/builtin.h"
#include "lib/core/parallel.h"
#include "tests/bench/bench_util.h"
#include "tests/bench/plain_hif8.h"

namespace hif8 {
namespace {

constexpr size_t kRow = 4096;

struct Data {
  std::vector<float> f32;
  std::vector<std::byte> bf16;
  std::vector<uint8_t> codes;
  std::vector<float> scales;  // one per row

  explicit Data(size_t n)
      : f32(n), bf16(n * 2), codes(n), scales(std::max<size_t>(1, n / kRow), 0.00371F) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.02F);
    std::vector<float> some(1 << 20);
    for (float& v : some) v = normal(random);
    for (size_t i = 0; i < n; ++i) f32[i] = some[(i * 7) % some.size()];
    for (size_t r = 0; r < scales.size(); ++r) scales[r] += 1e-6F * static_cast<float>(r % 1000);
    ConvertFromFloat(DType::kBF16, f32.data(), n, bf16.data());
  }
  size_t size() const { return f32.size(); }
  const std::byte* source(DType dtype) const {
    return dtype == DType::kBF16 ? bf16.data() : reinterpret_cast<const std::byte*>(f32.data());
  }
};

const NumberFormat& Hif8() { return BuiltinFormats().Get("hif8"); }

// Rows of a tensor, each with its scale (or none), shared out over the threads.
void EncodeRows(Data& data, DType dtype, bool scaled) {
  const size_t row = std::min(kRow, data.size());
  const float one = 1;
  const auto encode = [&](size_t r) {
    Hif8().Encode(dtype, data.source(dtype) + r * row * DTypeSize(dtype),
                  ScaleOperand::One(scaled ? data.scales[r] : one),
                  std::span(data.codes).subspan(r * row, row));
  };
  constexpr size_t kTogether = 16;
  const size_t rows = data.size() / row;
  ParallelFor((rows + kTogether - 1) / kTogether, [&](size_t task) {
    for (size_t r = task * kTogether; r < std::min(rows, (task + 1) * kTogether); ++r) encode(r);
  });
}

void DecodeRows(Data& data, std::vector<float>& out) {
  const size_t row = std::min(kRow, data.size());
  ParallelFor(data.size() / row, [&](size_t r) {
    Hif8().Decode(std::span(data.codes).subspan(r * row, row), ScaleOperand::One(data.scales[r]),
                  std::span(out).subspan(r * row, row));
  });
}

// memcpy that moves as many bytes, read and written together, shared out in the same way.
class Memcpy {
 public:
  explicit Memcpy(size_t moved) : from_(moved / 2, std::byte{1}), to_(moved / 2) {}
  void Run() {
    const size_t part = from_.size() / static_cast<size_t>(Threads());
    ParallelFor(static_cast<size_t>(Threads()), [&](size_t i) {
      std::memcpy(to_.data() + i * part, from_.data() + i * part, part);
    });
    Keep(to_.data());
  }

 private:
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

nlohmann::json AgainstMemcpy(Data& data, DType dtype, int threads, int rounds) {
  SetThreads(threads);
  Memcpy copy(data.size() * (DTypeSize(dtype) + 1));
  std::vector<Contender> contenders = {{"memcpy", [&] { copy.Run(); }},
                                       {"encode", [&] { EncodeRows(data, dtype, true); }}};
  RunInTurns(contenders, rounds, threads == 1 ? Clock::kThread : Clock::kWall);
  const double moved = static_cast<double>(data.size() * (DTypeSize(dtype) + 1));
  return {{"dtype", DTypeName(dtype)},
          {"threads", threads},
          {"memcpy_gb_per_s", moved / contenders[0].seconds * 1e-9},
          {"encode_gelem_per_s", static_cast<double>(data.size()) / contenders[1].seconds * 1e-9},
          {"encode_to_memcpy", contenders[0].seconds / contenders[1].seconds},
          {"goal", dtype == DType::kF32 ? ">= 0.75 on one thread" : ">= 0.7 on two threads"}};
}

nlohmann::json DecodeAgainstMemcpy(Data& data, int rounds) {
  SetThreads(1);
  EncodeRows(data, DType::kF32, true);
  std::vector<float> out(data.size());
  Memcpy copy(data.size() * 5);
  std::vector<Contender> contenders = {
      {"memcpy", [&] { copy.Run(); }},
      {"decode", [&] { Hif8().Decode(data.codes, ScaleOperand::One(data.scales[0]), out); }}};
  RunInTurns(contenders, rounds, Clock::kThread);
  return {{"decode_gelem_per_s", static_cast<double>(data.size()) / contenders[1].seconds * 1e-9},
          {"decode_to_memcpy", contenders[0].seconds / contenders[1].seconds},
          {"goal", ">= 0.75"}};
}

// Everything stays in the L2 cache; one thread, one row after another.
nlohmann::json InCache(int rounds) {
  SetThreads(1);
  Data data(size_t{1} << 16);
  std::vector<float> out(data.size());
  constexpr int kTimes = 20;
  const auto repeat = [&](const auto& body) {
    return [&data, body] {
      for (int i = 0; i < kTimes; ++i) body();
      Keep(data.codes.data());
    };
  };
  std::vector<Contender> contenders = {
      {"f32", repeat([&] { EncodeRows(data, DType::kF32, false); })},
      {"f32_scaled", repeat([&] { EncodeRows(data, DType::kF32, true); })},
      {"bf16", repeat([&] { EncodeRows(data, DType::kBF16, false); })},
      {"bf16_scaled", repeat([&] { EncodeRows(data, DType::kBF16, true); })},
      {"decode", repeat([&] { DecodeRows(data, out); })},
      {"quantize_dequantize", repeat([&] {
         Hif8().QuantizeDequantize(data.f32, ScaleOperand::One(data.scales[0]), out);
       })},
      {"bit_by_bit", [&] {
         for (size_t i = 0; i < data.size(); ++i) {
           data.codes[i] = PlainHif8(data.f32[i] / data.scales[0]);
         }
         Keep(data.codes.data());
       }}};
  RunInTurns(contenders, 10 * rounds, Clock::kThread);
  nlohmann::json out_json;
  for (const Contender& c : contenders) {
    const double times = c.name == "bit_by_bit" ? 1 : kTimes;
    out_json[c.name + "_gelem_per_s"] = times * static_cast<double>(data.size()) / c.seconds * 1e-9;
  }
  out_json["scaled_to_bit_by_bit"] = contenders[6].seconds * kTimes / contenders[1].seconds;
  out_json["goal"] = "f32 >= 8 with AVX-512, >= 4 with AVX2, half of it scaled; >= 30 bit by bit";
  return out_json;
}

void UseTargets(int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

int Main(int rounds) {
  nlohmann::json out;
  out["target"] = hwy::TargetName(hwy::SupportedTargets() & -hwy::SupportedTargets());
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    UseTargets(left);
    out["in_cache"][hwy::TargetName(left & -left)] = InCache(rounds);
  }
  UseTargets(0);
  Data data(size_t{1} << 26);  // 256 MiB as fp32
  out["from_memory"].push_back(AgainstMemcpy(data, DType::kF32, 1, rounds));
  out["from_memory"].push_back(AgainstMemcpy(data, DType::kBF16, 1, rounds));
  out["from_memory"].push_back(AgainstMemcpy(data, DType::kBF16, 2, rounds));
  out["decode_from_memory"] = DecodeAgainstMemcpy(data, rounds);
  std::cout << out.dump(2) << '\n';
  return 0;
}

}  // namespace
}  // namespace hif8

int main(int argc, char** argv) { return hif8::Main(argc > 1 ? std::atoi(argv[1]) : 5); }
