#include "lib/model/safetensors/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "lib/core/error.h"

namespace hif8 {
namespace {

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
    } else if (turns < high) {
      const double smooth = (turns - low) / (high - low);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

// 0.1 m ln(factor) + 1, the growth of attention's temperature in YaRN.
double YarnMagnitude(double factor, double m) {
  return factor > 1 ? 0.1 * m * std::log(factor) + 1 : 1;
}

void ScaleYarn(const ModelConfig& config, const ModelConfig& scaling, double theta,
               int64_t dimension, Rope* out) {
  const double context = scaling.Has("original_max_position_embeddings")
                             ? PositiveNumber(scaling, "original_max_position_embeddings")
                             : config.Number("max_position_embeddings");
  const double factor = scaling.Has("factor") ? PositiveNumber(scaling, "factor")
                                              : config.Number("max_position_embeddings") / context;
  // The pair of elements that turns `rotations` times over the original context.
  const auto pair_of = [&](double rotations) {
    return static_cast<double>(dimension) * std::log(context / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
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

// LongRoPE (arXiv 2402.13753): a factor for every frequency, one list for short sequences and one
// for long ones.
void ScaleLong(const ModelConfig& config, const ModelConfig& scaling, Rope* out) {
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const double context = config.Has(kOriginal) ? PositiveNumber(config, kOriginal)
                                               : PositiveNumber(scaling, kOriginal);
  const std::vector<double> plain = out->frequencies;
  out->long_frequencies = plain;
  for (const auto& [key, frequencies] : {std::pair("short_factor", &out->frequencies),
                                         std::pair("long_factor", &out->long_frequencies)}) {
    const std::vector<double> factors = scaling.Numbers(key);
    if (factors.size() != plain.size()) {
      throw ModelError("longrope: '" + std::string(key) + "': expected " +
                           std::to_string(plain.size()) + " numbers, found " +
                           std::to_string(factors.size()),
                       "there is one for each pair of rotated elements", config.where());
    }
    for (size_t i = 0; i < plain.size(); ++i) (*frequencies)[i] = plain[i] / factors[i];
  }
  out->short_length = static_cast<int64_t>(context);
  const double growth = config.Number("max_position_embeddings") / context;
  out->magnitude = scaling.Number(
      "attention_factor", growth > 1 ? std::sqrt(1 + std::log(growth) / std::log(context)) : 1);
}

}  // namespace

ModelConfig RopeSettings(const ModelConfig& config) {
  const ModelConfig parameters = config.Object("rope_parameters");
  const ModelConfig full = parameters.Object("full_attention");
  if (!full.empty()) return full;
  return parameters.empty() ? config.Object("rope_scaling") : parameters;
}

Rope PlainRope(double theta, int64_t dimension) {
  if (!(theta > 1)) {
    throw ModelError("'rope_theta': expected more than 1, found " + std::to_string(theta),
                     "is it the one of this model?");
  }
  Rope out;
  for (int64_t i = 0; i < dimension; i += 2) {
    out.frequencies.push_back(
        std::pow(theta, -static_cast<double>(i) / static_cast<double>(dimension)));
  }
  return out;
}

Rope MakeRope(const ModelConfig& config, double theta, int64_t dimension) {
  const ModelConfig scaling = RopeSettings(config);
  const std::string type = scaling.String("rope_type", scaling.String("type", "default"));
  Rope out = PlainRope(theta, dimension);
  if (type == "default") return out;
  if (type == "linear") {
    const double factor = PositiveNumber(scaling, "factor");
    for (double& frequency : out.frequencies) frequency /= factor;
  } else if (type == "llama3") {
    ScaleLlama3(scaling, &out.frequencies);
  } else if (type == "yarn") {
    ScaleYarn(config, scaling, theta, dimension, &out);
  } else if (type == "longrope" || type == "su") {
    ScaleLong(config, scaling, &out);
  } else if (type == "dynamic" && scaling.Has("alpha")) {
    const auto d = static_cast<double>(dimension);
    return PlainRope(theta * std::pow(PositiveNumber(scaling, "alpha"), d / (d - 2)), dimension);
  } else {
    throw ModelError("RoPE scaling '" + type + "' is not supported",
                     "known: default, linear, llama3, yarn, longrope, dynamic with alpha; weights "
                     "alone can be quantized with --recipe weight-only",
                     config.where());
  }
  return out;
}

RopeTable MakeRopeTable(const Rope& rope, int64_t length) {
  RopeTable table;
  const std::vector<double>& frequencies = rope.FrequenciesFor(length);
  const size_t size = static_cast<size_t>(length) * frequencies.size();
  table.cosines.reserve(size);
  table.sines.reserve(size);
  for (int64_t position = 0; position < length; ++position) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      table.cosines.push_back(static_cast<float>(std::cos(angle) * rope.magnitude));
      table.sines.push_back(static_cast<float>(std::sin(angle) * rope.magnitude));
    }
  }
  return table;
}

}  // namespace hif8
