// calibration.yaml: every scale that a person may want to read or edit, and how it was chosen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/model/model.h"
#include "lib/quant/calibrator.h"

namespace hif8 {

// The scale of one activation and its origin.
struct ActivationScale {
  ScaleChoice choice;
  std::string rule;
  uint64_t samples = 0;  // samples in which the tensor was observed
};

// One quantized layer as the file lists it. Layers that share a tensor repeat its entry.
struct CalibratedLayer {
  std::string layer;
  // Quantized inputs, tensor name and scale: one for most layers, two for a product of activations.
  std::vector<std::pair<std::string, ActivationScale>> inputs;
  std::string weight;  // weight's name; empty: none
  std::string weight_rule;
  // Over the scales' bytes; they follow from weights and recipe. Empty in a part of a model that
  // another part's weight is listed in.
  std::string weight_hash;
};

struct Calibration {
  Fingerprint model;
  uint64_t samples = 0;
  bool synthetic = false;
  std::vector<CalibratedLayer> layers;
  // Layers that stay in high precision because no finite input was ever observed.
  std::vector<std::string> unobserved;

  // Scales by activation name. Throws kUsage naming two layers whose entries for one tensor differ.
  std::map<std::string, ActivationScale> ActivationScales() const;
};

// Floats are written as the shortest text that reads back to the same fp32.
std::string FormatCalibration(const Calibration& calibration);

// Throws kUsage with file:line:column for text that is not a calibration file, and for scales that
// are not normal positive fp32 numbers.
Calibration ParseCalibration(std::string_view text, const std::string& file);

}  // namespace hif8
