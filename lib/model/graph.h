// A graph that the engine can run, as plain data: made by a model's graph builder, run by
// lib/runtime.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/tensor.h"

namespace hif8 {

// The operators that observe tensors inside a running graph. Both return their first input
// unchanged (aliased, no copy) and report to the TapSink of the session with the integer attribute
// `id`:
//   Observe(x) -> x               every float type
//   Compare(x, y) -> x            both fp32
inline constexpr std::string_view kTapDomain = "calibration.tap";
inline constexpr std::string_view kObserveOp = "Observe";
inline constexpr std::string_view kCompareOp = "Compare";
inline constexpr std::string_view kTapIdAttribute = "id";

// An operator of networks that the standard ones do not have, all inputs fp32:
//   GatedDeltaRule(value [T, heads, n], query and key [T, key heads, m], decay and beta [T, heads])
// Per head of values, with the head of keys that it shares: state S [m, n] is 0 before; at each
// position S *= exp(decay), S += key outer beta (value - key^T S), and the result is query^T S.
inline constexpr std::string_view kNetworkDomain = "calibration.network";
inline constexpr std::string_view kGatedDeltaRuleOp = "GatedDeltaRule";

// Attributes of the operators that round to a format's grid with scales found in the data: the
// dimension that readers sum over, elements of it that share a scale, and the rest of TileScaling.
inline constexpr std::string_view kAxisAttribute = "axis";
inline constexpr std::string_view kTileAttribute = "tile";
inline constexpr std::string_view kPowerOfTwoAttribute = "power_of_two";
inline constexpr std::string_view kTargetAttribute = "target";

// A graph input that needs data, or a graph output.
struct GraphValue {
  std::string name;
  DType dtype = DType::kF32;
  bool rank_known = true;
  Shape shape;                         // -1: any (symbolic or unset)
  std::vector<std::string> dim_names;  // "" where a dimension has no name; as long as shape
  // The first dimension is time: slices of it depend on each other, so they are no samples.
  bool time_first = false;
};

struct RunnableGraph {
  std::string model;               // serialized ModelProto
  std::filesystem::path data_dir;  // where its external data lives; empty when it has none
  std::vector<GraphValue> inputs;
  std::vector<GraphValue> outputs;
};

// Runs a graph without inputs and returns its outputs in order: what an engine does.
using ConstantEvaluator = std::function<std::vector<Tensor>(const RunnableGraph&)>;

// Tells what a tap of an evaluation graph reports.
enum class TapKind {
  kActivation,  // Compare(x, quantized x) on the original network's data; `index` is an activation
  kOutput,      // Compare(y, y computed from quantized weight and input); `index` is a layer
  kLayerOutput  // Observe(y) of the network that runs; `index` is a layer
};
struct Tap {
  TapKind kind;
  int index;
};

// Two graphs over the same inputs and outputs; a tap's id is its position in `taps`. Layers that
// cannot be compared that way are left out of them.
struct EvaluationGraphs {
  RunnableGraph original;
  std::vector<Tap> original_taps;  // kActivation, kOutput and kLayerOutput
  RunnableGraph quantized;
  std::vector<Tap> quantized_taps;  // kLayerOutput: compared with the original's of the same run
};

}  // namespace hif8
