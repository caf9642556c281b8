#include "lib/quant/weight_quantizer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/parallel.h"
#include "lib/numeric/vector_kernels.h"

namespace hif8 {
namespace {

constexpr uint32_t kInfinityBits = 0x7F800000;

// A piece of a weight that one call can encode: `size` elements from `begin`, with one scale for
// all of them or one per element, from scale index `scale` on.
struct Run {
  size_t begin;
  size_t size;
  size_t scale;
  bool per_value;

  ScaleOperand Operand(const std::vector<float>& scales) const {
    return {&scales[scale], per_value};
  }
};

// Elements per parallel piece: large enough to hide the cost of a task, small enough for the L2
// cache.
constexpr size_t kPiece = size_t{1} << 16;

// Calls visit(run) for every run of piece `piece` in memory order. A run never crosses a piece.
template <typename Visit>
void ForEachRun(const ChannelLayout& layout, size_t piece, const Visit& visit) {
  const size_t end = std::min(layout.size(), (piece + 1) * kPiece);
  // With interleaved channels a whole row of them is one run; else every channel's inner part is.
  const bool interleaved = layout.inner == 1;
  const size_t length = interleaved ? layout.channels : layout.inner;
  for (size_t at = piece * kPiece; at < end;) {
    const size_t row = at / length;
    const size_t offset = at % length;
    const size_t size = std::min(length - offset, end - at);
    if (interleaved) {
      visit(Run{at, size, row / layout.outer * layout.channels + offset, true});
    } else {
      const size_t batch = row / (layout.outer * layout.channels);
      visit(Run{at, size, batch * layout.channels + row % layout.channels, false});
    }
    at += size;
  }
}

size_t PieceCount(const ChannelLayout& layout) { return (layout.size() + kPiece - 1) / kPiece; }

// Values with one scale that are converted to fp32 all at once; more of them come in pieces.
constexpr size_t kMostHeld = size_t{1} << 24;

bool AllFinite(std::span<const float> values) {
  return ScanMagnitudes(values.data(), values.size()).most < kInfinityBits;
}

// Calls visit(position, values) for elements [begin, begin + n) as fp32, piece by piece.
template <typename Visit>
void ForEachPiece(const TensorView& weight, size_t begin, size_t n, const Visit& visit) {
  constexpr size_t kStep = size_t{1} << 20;
  std::vector<float> buffer;
  for (size_t at = begin; at < begin + n; at += kStep) {
    const auto size = static_cast<int64_t>(std::min(kStep, begin + n - at));
    const TensorView piece{weight.dtype, {size}, weight.data + at * DTypeSize(weight.dtype)};
    visit(at, AsFloats(piece, &buffer));
  }
}

// `finite` becomes false where values are not; those pieces are left out.
ValuePieces PiecesOf(const TensorView& weight, size_t begin, size_t n, std::atomic<bool>* finite) {
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

// Once it is known that there is such a value.
[[noreturn]] void ThrowNonFinite(const std::string& name, const TensorView& weight) {
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
                       ShapeText(weight.shape),
                   "repair the weight, or leave its layer as it is with --keep", name);
}

}  // namespace

WeightScales SolveWeight(const std::string& name, const TensorView& weight,
                         const ChannelLayout& layout, const Calibrator& rule,
                         const NumberFormat& format, const ScaleParams& params) {
  const size_t count = layout.scale_count();
  std::vector<ScaleChoice> choices(count);
  std::atomic<bool> finite = true;
  const bool in_one_run = layout.outer == 1 || layout.channels == 1;
  if (in_one_run && layout.channel_size() > kMostHeld) {
    for (size_t index = 0; index < count; ++index) {
      const ValuePieces pieces =
          PiecesOf(weight, index * layout.channel_size(), layout.channel_size(), &finite);
      choices[index] = rule.SolvePieces(pieces, format, params);
    }
  } else {
    ForEachChannel(weight, layout, [&](size_t index, std::span<const float> values) {
      if (!AllFinite(values)) {
        finite = false;
        return;
      }
      choices[index] = rule.Solve(values, format, params);
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

EncodedWeight EncodeWeight(const TensorView& weight, const ChannelLayout& layout,
                           std::vector<float> scales, const NumberFormat& format) {
  EncodedWeight encoded{std::string(format.name()), layout, std::move(scales), {}};
  encoded.codes.resize(layout.size());
  const size_t element = DTypeSize(weight.dtype);
  // Formats encode fp32, fp16 and bf16; double is rounded to fp32 first, piece by piece.
  const bool wide = weight.dtype == DType::kF64;
  ParallelFor(PieceCount(layout), [&](size_t piece) {
    std::vector<float> buffer;
    ForEachRun(layout, piece, [&](const Run& run) {
      const std::byte* source = weight.data + run.begin * element;
      DType dtype = weight.dtype;
      if (wide) {
        buffer.resize(run.size);
        ConvertToFloat(DType::kF64, source, run.size, buffer.data());
        source = reinterpret_cast<const std::byte*>(buffer.data());
        dtype = DType::kF32;
      }
      format.Encode(dtype, source, run.Operand(encoded.scales),
                    std::span(encoded.codes).subspan(run.begin, run.size));
    });
  });
  return encoded;
}

void DecodeWeight(const EncodedWeight& encoded, const NumberFormat& format,
                  std::span<float> values) {
  ParallelFor(PieceCount(encoded.layout), [&](size_t piece) {
    ForEachRun(encoded.layout, piece, [&](const Run& run) {
      format.Decode(std::span(encoded.codes).subspan(run.begin, run.size),
                    run.Operand(encoded.scales), values.subspan(run.begin, run.size));
    });
  });
}

ErrorMetrics MeasureWeight(const TensorView& original, const EncodedWeight& encoded,
                           const NumberFormat& format, ScaledExponents* exponents) {
  const ChannelLayout& layout = encoded.layout;
  std::vector<ErrorMetrics> parts(PieceCount(layout));
  std::mutex counting;
  const size_t element = DTypeSize(original.dtype);
  ParallelFor(parts.size(), [&](size_t piece) {
    const size_t begin = piece * kPiece;
    const size_t size = std::min(layout.size() - begin, kPiece);
    std::vector<float> x(size);
    std::vector<float> y(size);
    ConvertToFloat(original.dtype, original.data + begin * element, size, x.data());
    std::vector<float> scaled(size);
    ForEachRun(layout, piece, [&](const Run& run) {
      const std::span<float> out = std::span(y).subspan(run.begin - begin, run.size);
      format.Decode(std::span(encoded.codes).subspan(run.begin, run.size),
                    run.Operand(encoded.scales), out);
      for (size_t i = 0; i < run.size; ++i) {
        const float scale = encoded.scales[run.scale + (run.per_value ? i : 0)];
        scaled[run.begin - begin + i] = x[run.begin - begin + i] / scale;
      }
    });
    parts[piece].Add(x, y);
    parts[piece].CountRange(scaled, 1.0F, format.OverflowThreshold(), format.OverflowThreshold());
    if (exponents == nullptr) return;
    ScaledExponents part;
    part.before.Add(x);
    part.after.Add(scaled);
    const std::scoped_lock lock(counting);  // integer sums: the order does not matter
    exponents->Merge(part);
  });
  // Merged in a fixed order: the sums do not depend on the number of threads.
  ErrorMetrics total;
  for (const ErrorMetrics& part : parts) total.Merge(part);
  return total;
}

}  // namespace hif8
