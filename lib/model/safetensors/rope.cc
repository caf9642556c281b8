#include "lib/model/safetensors/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "lib/core/error.h"

namespace hif8 {
namespace {

struct RopeConfig {
  ModelConfig scaling;  // rope_scaling or rope_parameters; may be empty
  std::string type = "default";
  double theta = 10000;
};

RopeConfig ReadRopeConfig(const ModelConfig& config) {
  RopeConfig rope;
  rope.scaling = config.Object("rope_parameters");
  if (rope.scaling.empty()) rope.scaling = config.Object("rope_scaling");
  rope.type = rope.scaling.String("rope_type", rope.scaling.String("type", "default"));
  rope.theta = rope.scaling.Number("rope_theta", config.Number("rope_theta", 10000));
  if (!(rope.theta > 1)) {
    throw ModelError("'rope_theta': expected more than 1, found " + std::to_string(rope.theta),
                     "correct the value in config.json", config.where());
  }
  return rope;
}

double PositiveNumber(const ModelConfig& config, const char* key) {
  const double value = config.Number(key);
  if (!(value > 0)) {
    throw ModelError("'rope_scaling." + std::string(key) + "': expected more than 0, found " +
                         std::to_string(value),
                     "correct the value in config.json", config.where());
  }
  return value;
}

void ScaleLlama3(const ModelConfig& scaling, std::vector<double>* frequencies) {
  const double factor = PositiveNumber(scaling, "factor");
  const double low = PositiveNumber(scaling, "low_freq_factor");
  const double high = PositiveNumber(scaling, "high_freq_factor");
  const double context = PositiveNumber(scaling, "original_max_position_embeddings");
  for (double& frequency : *frequencies) {
    const double turns = context * frequency / (2 * std::numbers::pi);
    if (turns < low) {
      frequency /= factor;
    } else if (turns <= high) {
      const double smooth = (turns - low) / (high - low);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

// 0.1 m ln(factor) + 1, the growth of attention's temperature in YaRN.
double YarnMagnitude(double factor, double m) {
  return factor > 1 ? 0.1 * m * std::log(factor) + 1 : 1;
}

void ScaleYarn(const ModelConfig& config, const RopeConfig& rope, int64_t dimension, Rope* out) {
  const ModelConfig& scaling = rope.scaling;
  const double context = scaling.Has("original_max_position_embeddings")
                             ? PositiveNumber(scaling, "original_max_position_embeddings")
                             : config.Number("max_position_embeddings");
  const double factor = scaling.Has("factor") ? PositiveNumber(scaling, "factor")
                                              : config.Number("max_position_embeddings") / context;
  // The pair of elements that turns `rotations` times over the original context.
  const auto pair_of = [&](double rotations) {
    return static_cast<double>(dimension) * std::log(context / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = pair_of(scaling.Number("beta_fast", 32));
  double high = pair_of(scaling.Number("beta_slow", 1));
  if (scaling.Bool("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dimension - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < out->frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    double& frequency = out->frequencies[i];
    frequency = frequency / factor * ramp + frequency * (1 - ramp);
  }
  const double m = scaling.Number("mscale", 0);
  const double all = scaling.Number("mscale_all_dim", 0);
  const double magnitude = m != 0 && all != 0
                               ? YarnMagnitude(factor, m) / YarnMagnitude(factor, all)
                               : YarnMagnitude(factor, 1);
  out->magnitude = scaling.Number("attention_factor", magnitude);
  if (all != 0) out->temperature = std::pow(YarnMagnitude(factor, all), 2);
}

}  // namespace

Rope MakeRope(const ModelConfig& config, int64_t dimension) {
  const RopeConfig rope = ReadRopeConfig(config);
  Rope out;
  for (int64_t i = 0; i < dimension; i += 2) {
    out.frequencies.push_back(
        std::pow(rope.theta, -static_cast<double>(i) / static_cast<double>(dimension)));
  }
  if (rope.type == "default") return out;
  if (rope.type == "linear") {
    const double factor = PositiveNumber(rope.scaling, "factor");
    for (double& frequency : out.frequencies) frequency /= factor;
  } else if (rope.type == "llama3") {
    ScaleLlama3(rope.scaling, &out.frequencies);
  } else if (rope.type == "yarn") {
    ScaleYarn(config, rope, dimension, &out);
  } else {
    throw ModelError("RoPE scaling '" + rope.type + "' is not supported",
                     "known: default, linear, llama3, yarn; weights alone can be quantized with "
                     "--recipe cast",
                     config.where());
  }
  return out;
}

RopeTable MakeRopeTable(const Rope& rope, int64_t length) {
  RopeTable table;
  const size_t size = static_cast<size_t>(length) * rope.frequencies.size();
  table.cosines.reserve(size);
  table.sines.reserve(size);
  for (int64_t position = 0; position < length; ++position) {
    for (const double frequency : rope.frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      table.cosines.push_back(static_cast<float>(std::cos(angle) * rope.magnitude));
      table.sines.push_back(static_cast<float>(std::sin(angle) * rope.magnitude));
    }
  }
  return table;
}

}  // namespace hif8
