// References of the small checkpoints: what an independent implementation computed.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/model/safetensors/decoder_spec.h"
#include "lib/runtime/token_data.h"
#include "tests/model/safetensors/checkpoint_files.h"

namespace hif8::test {

struct Reference {
  nlohmann::json json;
  std::map<std::string, RawTensor> tensors;
  std::filesystem::path tensors_file;

  explicit Reference(const std::filesystem::path& model)
      : json(nlohmann::json::parse(ReadBytes(model / "reference.json"))),
        tensors(ByName(TensorsOf(model / "reference.safetensors"))),
        tensors_file(model / "reference.safetensors") {}

  // What the network read.
  TokenData Data(const DecoderSpec& spec) const {
    if (spec.input == InputType::kTokens) return Ids();
    const int64_t size = spec.image.size;
    const GraphValue pixels{
        "pixel_values", DType::kF32, true, {-1, spec.image.channels, size, size}, {"", "", "", ""}};
    DataOptions options;
    options.source = tensors_file.string();
    options.leading = LeadingDimension::kBatch;
    TokenData data;
    data.images = OpenDataset(options, {&pixels, 1}, NullLog());
    return data;
  }

  // What the network gave in the end.
  const RawTensor& End() const {
    for (const char* name : {"logits", "image_embeds", "pooler_output"}) {
      if (tensors.contains(name)) return tensors.at(name);
    }
    throw std::runtime_error("no logits");
  }

  TokenData Ids() const {
    const RawTensor& ids = tensors.at("input_ids");
    TokenData data;
    data.source = "input_ids";
    const auto length = static_cast<size_t>(ids.shape[1]);
    for (int64_t i = 0; i < ids.shape[0]; ++i) {
      std::vector<int64_t> sample(length);
      std::memcpy(sample.data(), ids.data.data() + static_cast<size_t>(i) * length * 8, length * 8);
      data.samples.push_back(std::move(sample));
    }
    return data;
  }
};

// |difference| / |reference| over samples that lie one behind the other in `reference`.
inline double RelativeDifference(const std::vector<std::vector<float>>& samples,
                                 const RawTensor& reference) {
  const std::vector<float> expected = FloatsOf(reference);
  double difference = 0;
  double norm = 0;
  size_t at = 0;
  for (const auto& sample : samples) {
    for (const float value : sample) {
      const double e = expected.at(at++);
      difference += (value - e) * (value - e);
      norm += e * e;
    }
  }
  return at == expected.size() ? std::sqrt(difference / norm) : 1e30;
}

}  // namespace hif8::test
