#include "lib/quant/weight_quantizer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/parallel.h"
#include "lib/numeric/scale_codes.h"
#include "lib/numeric/tile_scaling.h"
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
  return LargestMagnitude(values.data(), values.size()) < kInfinityBits;
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

// Bits of the largest magnitude of elements [begin, begin + n).
uint32_t LargestOf(const FloatSource& weight, size_t begin, size_t n) {
  const std::byte* stored = weight.Stored(begin);
  if (stored != nullptr && weight.tensor().dtype == DType::kBF16) {
    return LargestMagnitudeBF16(stored, n);
  }
  uint32_t largest = 0;
  ForEachPiece(weight, begin, n, [&](size_t, std::span<const float> values) {
    largest = std::max(largest, LargestMagnitude(values.data(), values.size()));
  });
  return largest;
}

// The same for every tile.
std::vector<uint32_t> LargestOfTiles(const FloatSource& weight, const TileLayout& layout) {
  std::vector<uint32_t> largest(layout.scale_count());
  const size_t run = RunOf(layout);
  if (run == 0) {
    ForEachTile(weight, layout, [&](size_t index, std::span<const float> values) {
      largest[index] = LargestMagnitude(values.data(), values.size());
    });
    return largest;
  }
  // In pieces of the tensor, whatever the size of the tiles.
  const size_t size = layout.size();
  ParallelFor((size + kPiece - 1) / kPiece, [&](size_t piece) {
    const size_t end = std::min(size, (piece + 1) * kPiece);
    for (size_t at = piece * kPiece; at < end;) {
      const size_t tile = at / run;
      const size_t n = std::min(end, (tile + 1) * run) - at;
      const uint32_t found = LargestOf(weight, at, n);
      const std::atomic_ref<uint32_t> shared(largest[tile]);
      uint32_t known = shared.load();
      while (known < found && !shared.compare_exchange_weak(known, found)) {
      }
      at += n;
    }
  });
  return largest;
}

// The largest x with x / scale <= limit.
float LargestWithin(float limit, float scale) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float x = limit * scale;
  while (x / scale > limit) x = std::nextafter(x, 0.0F);
  for (float next = x; next / scale <= limit; next = std::nextafter(x, kInfinity)) x = next;
  return x;
}

// What depends on the quotients of values and scales: which of them are beyond `threshold`, and,
// unless `exponents` is null, how large they are.
void MeasureRun(std::span<const float> x, ScaleOperand scale, float threshold,
                ErrorMetrics* metrics, ExponentHistogram* exponents) {
  if (!scale.per_value) {
    const float one = scale.values[0];
    metrics->CountRange(x, one, threshold, LargestWithin(threshold, one));
    if (exponents != nullptr) exponents->AddDivided(x, one);
    return;
  }
  std::vector<float> quotients(x.begin(), x.end());
  for (size_t i = 0; i < x.size(); ++i) quotients[i] /= scale.values[i];
  metrics->CountRange(quotients, 1.0F, threshold, threshold);
  if (exponents != nullptr) exponents->Add(quotients);
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
  const bool by_tile = format.ScalesFollowAmax();
  TileScaling scaling{.target = ResolveTarget(format, params)};
  std::vector<ScaleChoice> choices(layout.scale_count());
  std::atomic<bool> finite = true;
  const size_t run = RunOf(layout);
  const AmaxSolver* const by_amax = rule.amax_solver();
  if (by_tile || by_amax != nullptr) {
    const std::vector<uint32_t> largest = LargestOfTiles(weight, layout);
    finite = std::all_of(largest.begin(), largest.end(),
                         [](uint32_t bits) { return bits < kInfinityBits; });
    const uint32_t most = largest.empty() ? 0 : *std::ranges::max_element(largest);
    scaling.global_scale = GlobalScale(format, std::bit_cast<float>(most), scaling.target);
    for (size_t index = 0; finite && index < choices.size(); ++index) {
      const auto amax = std::bit_cast<float>(largest[index]);
      if (by_tile) {
        choices[index].amax = amax;
        choices[index].scale = scaling.ScaleOf(amax, format);
      } else {
        choices[index] = by_amax->SolveAmax(amax, format, params);
      }
    }
  } else if (run > kMostHeld) {
    for (size_t index = 0; index < choices.size(); ++index) {
      const ValuePieces pieces = PiecesOf(weight, index * run, run, &finite);
      choices[index] = rule.SolvePieces(pieces, format, params);
    }
  } else {
    ForEachTile(weight, layout, [&](size_t index, std::span<const float> values) {
      if (AllFinite(values)) {
        choices[index] = rule.Solve(values, format, params);
      } else {
        finite = false;
      }
    });
  }
  if (!finite) ThrowNonFinite(name, weight);
  WeightScales result;
  result.global_scale = scaling.global_scale;
  result.scales.reserve(choices.size());
  for (const ScaleChoice& choice : choices) {
    result.scales.push_back(choice.scale);
    result.amax = std::max(result.amax, choice.amax);
    if (result.note.empty()) result.note = choice.note;
  }
  return result;
}

EncodedWeight EncodeWeight(const FloatSource& weight, const TileLayout& layout,
                           std::vector<float> scales, const NumberFormat& format,
                           float global_scale) {
  EncodedWeight encoded{std::string(format.name()), layout, std::move(scales), {}, global_scale};
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
    ScaledExponents part;
    if (exponents != nullptr) part.before.Add(x);
    ForEachScaleRun(layout, scales, begin, n, [&](size_t at, size_t count, ScaleOperand scale) {
      MeasureRun(x.subspan(at - begin, count), scale, format.OverflowThreshold(), &parts[piece],
                 exponents == nullptr ? nullptr : &part.after);
    });
    if (exponents == nullptr) return;
    const std::scoped_lock lock(counting);  // integer sums: the order does not matter
    exponents->Merge(part);
  });
  // Merged in a fixed order: the sums do not depend on the number of threads.
  ErrorMetrics total;
  for (const ErrorMetrics& part : parts) total.Merge(part);
  return total;
}

}  // namespace hif8
