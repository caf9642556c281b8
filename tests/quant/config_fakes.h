// Registries for tests of recipes: a tapered format with room above its target, a format that
// clips, and the names of the usual scale rules.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/quant/config.h"

namespace hif8::testing {

class FakeFormat : public NumberFormat {
 public:
  FakeFormat(std::string name, float largest, float target, bool clips)
      : name_(std::move(name)), table_{0, 1, largest, -1}, target_(target), clips_(clips) {}
  std::string_view name() const override { return name_; }
  std::string_view description() const override { return "for tests"; }
  int bits() const override { return 2; }
  std::span<const float> DecodeTable() const override { return table_; }
  float OverflowThreshold() const override { return table_[2]; }
  float DefaultTarget() const override { return target_; }
  bool ClipsAtMax() const override { return clips_; }
  uint8_t EncodeOne(float, Overflow) const override { return 0; }
  void Encode(DType, const std::byte*, ScaleOperand, std::span<uint8_t>, Overflow) const override {}
  void Decode(std::span<const uint8_t>, ScaleOperand, std::span<float>) const override {}
  void QuantizeDequantize(std::span<const float>, ScaleOperand, std::span<float>) const override {}

 private:
  std::string name_;
  std::vector<float> table_;
  float target_;
  bool clips_;
};

class FakeRule : public Calibrator {
 public:
  FakeRule(std::string name, const RuleTraits& traits) : name_(std::move(name)), traits_(traits) {}
  std::string_view name() const override { return name_; }
  std::string_view description() const override { return "for tests"; }
  const RuleTraits& traits() const override { return traits_; }
  ScaleChoice Solve(std::span<const float>, const NumberFormat&,
                    const ScaleParams&) const override {
    return {};
  }
  ScaleChoice Solve(const TensorStats&, const NumberFormat&, const ScaleParams&) const override {
    return {};
  }

 private:
  std::string name_;
  RuleTraits traits_;
};

struct FakeRegistries {
  FormatRegistry formats{"number format"};
  CalibratorRegistry rules{"scale rule"};
  ParseContext context{formats, rules};

  FakeRegistries() {
    formats.Add("tapered", std::make_shared<FakeFormat>("tapered", 32768.f, 16.f, false));
    formats.Add("flat8", std::make_shared<FakeFormat>("flat8", 448.f, 448.f, true));
    const auto add = [this](const char* name, const RuleTraits& traits) {
      rules.Add(name, std::make_shared<FakeRule>(name, traits));
    };
    add("max", {.caches = true, .tiles = true});
    add("percentile", {.caches = true, .settings = "percentile"});
    add("mse", {.caches = true, .settings = "mse"});
    add("cast", {.needs_data = false});
    add("ema", {.weights = false, .order_dependent = true});
    add("delayed", {.weights = false, .order_dependent = true, .settings = "delayed"});
  }
};

}  // namespace hif8::testing
