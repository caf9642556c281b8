#include "lib/quant/compare_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/numeric/zero_points.h"

namespace hif8 {
namespace {

// A loss beyond what rounding costs: in dB, and in largest errors.
constexpr double kSuspiciousLoss = 1;
constexpr double kSuspiciousError = 8;
// Below this a tensor says little about the one it was made from.
constexpr double kLeastDecibel = 10;
// From this cosine on a tensor is the original times a factor.
constexpr double kSameDirection = 0.9;

class PairMeasurer {
 public:
  PairMeasurer(const StoredModel& original, const StoredModel& quantized,
               const FormatRegistry& formats, TensorPair* pair)
      : original_(original),
        quantized_(quantized),
        formats_(formats),
        x_info_(original.tensors()[pair->original]),
        y_info_(quantized.tensors()[pair->quantized]),
        pair_(*pair) {}

  void Run() {
    if (SameBytes()) {
      pair_.equal = true;
    } else if (!x_info_.HasValues() || !y_info_.HasValues()) {
      pair_.problem = x_info_.HasValues() ? y_info_.unknown : x_info_.unknown;
    } else if (!SameShape()) {
      pair_.problem = "the shape is " + ShapeText(x_info_.shape) + " in the original, " +
                      ShapeText(y_info_.shape) + " in the quantized model";
    } else {
      Measure();
    }
  }

 private:
  // Codes of an ONNX weight may be stored under other dimensions.
  bool SameShape() const {
    return x_info_.shape == y_info_.shape ||
           (original_.kind() == "onnx" && x_info_.size() == y_info_.size());
  }

  bool SameBytes() const {
    if (!x_info_.format.empty() || !y_info_.format.empty() || x_info_.dtype != y_info_.dtype ||
        x_info_.shape != y_info_.shape) {
      return false;
    }
    const Tensor x = original_.Read(pair_.original);
    const Tensor y = quantized_.Read(pair_.quantized);
    return x.view.bytes() == 0 || std::memcmp(x.view.data, y.view.data, x.view.bytes()) == 0;
  }

  void Measure() {
    TensorPieces x(original_, pair_.original, formats_);
    TensorPieces y(quantized_, pair_.quantized, formats_);
    const std::vector<float> scales = quantized_.ReadScales(pair_.quantized);
    pair_.scales = scales.size();
    pair_.bad_scales = static_cast<size_t>(std::count_if(
        scales.begin(), scales.end(), [](float s) { return !(s > 0) || !std::isnormal(s); }));
    if (!y_info_.format.empty() && pair_.bad_scales == 0) pair_.nearest.emplace();
    if (x.rows() != y.rows() || x_info_.shape != y_info_.shape) {
      MeasurePiece(x.Read(0, x.rows()), y.Read(0, y.rows()));
    } else {
      const int64_t rows = x.rows();
      const int64_t count = x.rows_per_piece(std::lcm(x.row_step(), y.row_step()));
      for (int64_t begin = 0; begin < rows; begin += count) {
        CheckInterrupt();
        const int64_t end = std::min(rows, begin + count);
        MeasurePiece(x.Read(begin, end), y.Read(begin, end));
      }
    }
    const ErrorMetrics& error = pair_.error;
    pair_.equal = y_info_.format.empty() && error.NoiseEnergy() == 0 && error.non_finite() == 0;
  }

  void MeasurePiece(const TensorPieces::Piece& x, const TensorPieces::Piece& y) {
    std::vector<float> x_buffer;
    std::vector<float> y_buffer;
    const std::span<const float> values = AsFloats(x.values, &x_buffer);
    const std::span<const float> decoded = AsFloats(y.values, &y_buffer);
    pair_.error.Add(values, decoded);
    if (y.codes.empty()) return;
    const TensorView view{DType::kF32, y.tiles.shape,
                          reinterpret_cast<const std::byte*>(values.data())};
    const NumberFormat& format = formats_.Get(y_info_.format);
    if (y.zeros.empty()) MeasureRange(view, y, format);
    pair_.exponents.before.Add(values);
    if (!pair_.nearest) return;
    std::vector<float> scaled(values.size());
    DividePart(values, y.tiles, y.scales, 0, scaled);
    pair_.exponents.after.Add(scaled);
    std::vector<float> nearest = std::move(scaled);
    if (y.zeros.empty()) {
      QuantizeDequantizeTiles(format, values, y.tiles, y.scales, nearest);
    } else {
      RoundShifted(format, values, {y.tiles, y.scales, y.zeros}, nearest);
    }
    pair_.nearest->Add(values, nearest);
    for (size_t i = 0; i < nearest.size(); ++i) {
      if (std::isfinite(values[i]) && nearest[i] != decoded[i]) ++pair_.not_nearest;
    }
  }

  // Saturation, and what the magnitude of each tile was mapped to.
  void MeasureRange(const TensorView& values, const TensorPieces::Piece& y,
                    const NumberFormat& format) {
    std::vector<ErrorMetrics> ranges(y.scales.size());
    std::vector<double> targets(y.scales.size());
    ForEachTile(values, y.tiles, [&](size_t tile, std::span<const float> x) {
      const float scale = y.scales[tile];
      const float threshold = format.OverflowThreshold();
      ranges[tile].CountRange(x, scale, threshold, threshold * scale);
      float amax = 0;
      for (const float v : x) amax = std::isfinite(v) ? std::max(amax, std::fabs(v)) : amax;
      targets[tile] = static_cast<double>(amax) / scale;
    });
    for (size_t i = 0; i < ranges.size(); ++i) {
      pair_.error.Merge(ranges[i]);
      if (!(targets[i] > 0) || !std::isfinite(targets[i])) continue;
      const bool first = pair_.most_target == 0;
      pair_.least_target = first ? targets[i] : std::min(pair_.least_target, targets[i]);
      pair_.most_target = std::max(pair_.most_target, targets[i]);
    }
  }

  const StoredModel& original_;
  const StoredModel& quantized_;
  const FormatRegistry& formats_;
  const StoredTensor& x_info_;
  const StoredTensor& y_info_;
  TensorPair& pair_;
};

using Places = std::vector<size_t>;  // positions in tensors()

// The quantized model's tensors by their name in the original: the first of each one's names that
// the original has.
std::unordered_map<std::string, Places> ByOriginalName(const StoredModel& original,
                                                       const StoredModel& quantized) {
  std::unordered_set<std::string> known;
  for (const StoredTensor& tensor : original.tensors()) {
    if (tensor.parameter) known.insert(tensor.name);
  }
  std::unordered_map<std::string, Places> found;
  for (size_t i = 0; i < quantized.tensors().size(); ++i) {
    const StoredTensor& tensor = quantized.tensors()[i];
    if (!tensor.parameter) continue;
    const std::string* name = &tensor.name;
    for (auto it = tensor.also.begin(); it != tensor.also.end() && !known.contains(*name); ++it) {
      if (known.contains(*it)) name = &*it;
    }
    found[*name].push_back(i);
  }
  return found;
}

ModelPair Match(const StoredModel& original, const StoredModel& quantized) {
  ModelPair result;
  const auto partners = ByOriginalName(original, quantized);
  std::vector<bool> matched(quantized.tensors().size());
  for (size_t i = 0; i < original.tensors().size(); ++i) {
    if (!original.tensors()[i].parameter) continue;
    const auto found = partners.find(original.tensors()[i].name);
    if (found == partners.end()) {
      result.only_original.push_back(i);
      continue;
    }
    for (const size_t partner : found->second) {
      TensorPair pair;
      pair.original = i;
      pair.quantized = partner;
      matched[partner] = true;
      result.pairs.push_back(std::move(pair));
    }
  }
  for (size_t i = 0; i < matched.size(); ++i) {
    if (!matched[i] && quantized.tensors()[i].parameter) result.only_quantized.push_back(i);
  }
  return result;
}

}  // namespace

ModelPair CompareModels(const StoredModel& original, const StoredModel& quantized,
                        const FormatRegistry& formats, LogSink& log) {
  if (original.kind() != quantized.kind()) {
    throw ModelError("the original is of kind " + std::string(original.kind()) +
                         ", the quantized model of kind " + std::string(quantized.kind()),
                     "give two of one kind", quantized.path().string());
  }
  ModelPair result = Match(original, quantized);
  if (result.pairs.empty()) {
    throw ModelError("no tensor has the name of one in '" + original.path().string() + "'",
                     "give the model that it was made from first", quantized.path().string());
  }
  uint64_t total = 0;
  for (const TensorPair& pair : result.pairs) total += original.tensors()[pair.original].size();
  uint64_t done = 0;
  for (TensorPair& pair : result.pairs) {
    CheckInterrupt();
    PairMeasurer(original, quantized, formats, &pair).Run();
    log.Progress("comparing", done += original.tensors()[pair.original].size(), total);
  }
  return result;
}

std::string Suspicion(const TensorPair& pair, const StoredTensor& original,
                      const StoredTensor& quantized) {
  if (!pair.problem.empty()) return pair.problem;
  if (pair.equal) return "";
  if (pair.bad_scales > 0) {
    return fmt::format("{} of {} scales are no positive numbers", pair.bad_scales, pair.scales);
  }
  const ErrorMetrics& error = pair.error;
  const double decibel = error.SqnrDb();
  std::string loss;
  if (pair.nearest) {
    const double possible = pair.nearest->SqnrDb();
    if (possible - decibel > kSuspiciousLoss ||
        error.MaxAbsError() > kSuspiciousError * pair.nearest->MaxAbsError()) {
      loss = fmt::format(
          "codes and scales do not belong together: {:.2f} dB, where rounding with these scales "
          "gives {:.2f} dB; {:.3g} % of the values differ from that",
          decibel, possible,
          100 * static_cast<double>(pair.not_nearest) / static_cast<double>(original.size()));
    }
  } else if (IsFloat(quantized.dtype) &&
             (quantized.layers.empty() || !(decibel >= kLeastDecibel))) {
    loss = fmt::format("not quantized, but other values than the original's: {:.2f} dB", decibel);
  }
  if (loss.empty() && decibel < kLeastDecibel) loss = fmt::format("only {:.2f} dB", decibel);
  const double gain = error.Gain();
  if (!loss.empty() && std::fabs(gain - 1) > 0.05 && std::fabs(error.Cosine()) > kSameDirection) {
    loss += fmt::format("; the values are {:.3g} times the original's", gain);
  }
  return loss;
}

}  // namespace hif8
