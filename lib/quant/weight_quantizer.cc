#include "lib/quant/weight_quantizer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <mutex>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/parallel.h"
#include "lib/numeric/vector_kernels.h"

namespace hif8 {
namespace {

constexpr uint32_t kInfinityBits = 0x7F800000;

// Elements per parallel piece: large enough to hide the cost of a task, small enough for the L2
// cache.
constexpr size_t kPiece = size_t{1} << 16;

// Values with one scale that are converted to fp32 all at once; more of them come in pieces.
constexpr size_t kMostHeld = size_t{1} << 24;

bool AllFinite(std::span<const float> values) {
  return ScanMagnitudes(values.data(), values.size()).most < kInfinityBits;
}

// Calls visit(position, values) for elements [begin, begin + n) as fp32, piece by piece.
template <typename Visit>
void ForEachPiece(const FloatSource& weight, size_t begin, size_t n, const Visit& visit) {
  constexpr size_t kStep = size_t{1} << 20;
  std::vector<float> buffer;
  for (size_t at = begin; at < begin + n; at += kStep) {
    visit(at, weight.Floats(at, std::min(kStep, begin + n - at), &buffer));
  }
}

// `finite` becomes false where values are not; those pieces are left out.
ValuePieces PiecesOf(const FloatSource& weight, size_t begin, size_t n, std::atomic<bool>* finite) {
  return [=](const std::function<void(std::span<const float>)>& visit) {
    ForEachPiece(weight, begin, n, [&](size_t, std::span<const float> values) {
      if (AllFinite(values)) {
        visit(values);
      } else {
        *finite = false;
      }
    });
  };
}

// The size of the tiles where each is one run of memory as long as the others; else 0.
size_t RunOf(const TileLayout& layout) {
  size_t first = 0;
  while (first < layout.tile.size() && layout.tile[first] == 1) ++first;
  size_t run = 1;
  for (size_t i = first; i < layout.tile.size(); ++i) {
    if (layout.tile[i] != layout.shape[i]) return 0;
    run *= static_cast<size_t>(layout.shape[i]);
  }
  return run;
}

// Once it is known that there is such a value.
[[noreturn]] void ThrowNonFinite(const std::string& name, const FloatSource& weight) {
  std::string what = "a non-finite value";
  size_t at = weight.size();
  ForEachPiece(weight, 0, weight.size(), [&](size_t position, std::span<const float> values) {
    const auto bad =
        std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
    if (at < weight.size() || bad == values.end()) return;
    what = std::isnan(*bad) ? "NaN" : "an infinity";
    at = position + static_cast<size_t>(bad - values.begin());
  });
  throw ModelError("expected finite weights, found " + what + " in tensor '" + name +
                       "' at element " + std::to_string(at) + " of shape " +
                       ShapeText(weight.tensor().shape),
                   "repair the weight, or leave its layer as it is with --keep", name);
}

}  // namespace

WeightScales SolveWeight(const std::string& name, const FloatSource& weight,
                         const TileLayout& layout, const Calibrator& rule,
                         const NumberFormat& format, const ScaleParams& params) {
  const size_t count = layout.scale_count();
  const bool power = format.scale_encoding() == ScaleEncoding::kE8M0;
  std::vector<ScaleChoice> choices(count);
  std::atomic<bool> finite = true;
  const size_t run = RunOf(layout);
  if (run > kMostHeld) {
    for (size_t index = 0; index < count; ++index) {
      const ValuePieces pieces = PiecesOf(weight, index * run, run, &finite);
      choices[index] = rule.SolvePieces(pieces, format, params);
    }
  } else {
    ForEachTile(weight, layout, [&](size_t index, std::span<const float> values) {
      const uint32_t most = ScanMagnitudes(values.data(), values.size()).most;
      if (most >= kInfinityBits) {
        finite = false;
        return;
      }
      if (!power) {
        choices[index] = rule.Solve(values, format, params);
        return;
      }
      choices[index].amax = std::bit_cast<float>(most);
      choices[index].scale = E8M0Value(E8M0FromAmax(choices[index].amax, format));
    });
  }
  if (!finite) ThrowNonFinite(name, weight);
  WeightScales result;
  result.scales.reserve(count);
  for (const ScaleChoice& choice : choices) {
    result.scales.push_back(choice.scale);
    result.amax = std::max(result.amax, choice.amax);
    if (result.note.empty()) result.note = choice.note;
  }
  return result;
}

EncodedWeight EncodeWeight(const FloatSource& weight, const TileLayout& layout,
                           std::vector<float> scales, const NumberFormat& format) {
  EncodedWeight encoded{std::string(format.name()), layout, std::move(scales), {}};
  encoded.codes.resize(layout.size());
  EncodeTiles(format, weight, layout, encoded.scales, encoded.codes);
  return encoded;
}

void DecodeWeight(const EncodedWeight& encoded, const NumberFormat& format,
                  std::span<float> values) {
  DecodeTiles(format, encoded.codes, encoded.layout, encoded.scales, values);
}

ErrorMetrics MeasureWeight(const FloatSource& original, const TileLayout& layout,
                           std::span<const float> scales, std::span<const uint8_t> codes,
                           const NumberFormat& format, ScaledExponents* exponents) {
  const size_t size = layout.size();
  std::vector<ErrorMetrics> parts((size + kPiece - 1) / kPiece);
  std::mutex counting;
  ParallelFor(parts.size(), [&](size_t piece) {
    const size_t begin = piece * kPiece;
    const size_t n = std::min(size - begin, kPiece);
    thread_local std::vector<float> x_buffer;  // large: not made again for every piece
    thread_local std::vector<float> y_buffer;
    const std::span<const float> x = original.Floats(begin, n, &x_buffer);
    y_buffer.resize(n);
    const std::span<float> y = y_buffer;
    DecodePart(format, codes.subspan(begin, n), layout, scales, begin, y);
    parts[piece].Add(x, y);
    DividePart(x, layout, scales, begin, y);
    parts[piece].CountRange(y, 1.0F, format.OverflowThreshold(), format.OverflowThreshold());
    if (exponents == nullptr) return;
    ScaledExponents part;
    part.before.Add(x);
    part.after.Add(y);
    const std::scoped_lock lock(counting);  // integer sums: the order does not matter
    exponents->Merge(part);
  });
  // Merged in a fixed order: the sums do not depend on the number of threads.
  ErrorMetrics total;
  for (const ErrorMetrics& part : parts) total.Merge(part);
  return total;
}

}  // namespace hif8
