#include "lib/quant/calibration_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "lib/core/error.h"

namespace hif8 {
namespace {

Calibration Example() {
  Calibration calibration;
  calibration.model = {"model.onnx (12 bytes)", "0123456789abcdef0123456789abcdef", 12};
  calibration.samples = 24;
  CalibratedLayer layer;
  layer.layer = "conv: 'one' #1";
  layer.inputs = {
      {"x", {{0.1F, 1.6F, 1.7F, 16, "percentile was 0: amax taken"}, "percentile", 24}}};
  layer.weight = "w";
  layer.weight_rule = "max";
  layer.weight_hash = "00";
  calibration.layers = {layer, layer};
  calibration.layers[1].layer = "conv2";
  calibration.unobserved = {"dead #1"};
  return calibration;
}

std::string ErrorWhere(const std::string& text) {
  try {
    ParseCalibration(text, "c.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.where() + ": " + error.message();
  }
  return "no error";
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST(CalibrationFile, ReadsBackWhatWasWritten) {
  const std::string text = FormatCalibration(Example());
  const Calibration read = ParseCalibration(text, "c.yaml");
  EXPECT_EQ(FormatCalibration(read), text);
  EXPECT_EQ(read.layers.at(0).layer, "conv: 'one' #1");
  EXPECT_EQ(read.layers.at(0).inputs.at(0).second.choice.note, "percentile was 0: amax taken");
  EXPECT_EQ(read.samples, 24U);
}

TEST(CalibrationFile, FloatsKeepEveryBit) {
  uint32_t state = 1;
  for (int i = 0; i < 2000; ++i) {
    state = state * 1664525U + 1013904223U;
    const uint32_t bits = state & 0x7fffffffU;
    float scale = 0;
    std::memcpy(&scale, &bits, sizeof(scale));
    if (!std::isnormal(scale)) continue;
    Calibration calibration = Example();
    calibration.layers.resize(1);
    calibration.layers[0].inputs.at(0).second.choice.scale = scale;
    const Calibration read = ParseCalibration(FormatCalibration(calibration), "c.yaml");
    EXPECT_EQ(read.layers[0].inputs.at(0).second.choice.scale, scale);
  }
}

TEST(CalibrationFile, OneTensorHasOneScale) {
  Calibration calibration = Example();
  EXPECT_EQ(calibration.ActivationScales().size(), 1U);
  calibration.layers[1].inputs.at(0).second.choice.scale = 0.2F;
  try {
    calibration.ActivationScales();
    FAIL() << "two scales for one tensor were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(error.message().find("'conv2'"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("0.1 and 0.2"), std::string::npos) << error.message();
  }
}

TEST(CalibrationFile, ErrorsSayWhere) {
  const std::string text = FormatCalibration(Example());
  EXPECT_EQ(ErrorWhere(Replaced(text, "version: 1", "version: 7")),
            "c.yaml:1:10: expected version 1, found 7");
  EXPECT_NE(ErrorWhere(Replaced(text, "scale: 0.1", "scale: -0.1")).find("normal positive"),
            std::string::npos);
  EXPECT_NE(ErrorWhere(Replaced(text, "scale: 0.1", "scale: .nan")).find("c.yaml:"),
            std::string::npos);
  EXPECT_NE(ErrorWhere(Replaced(text, "scale: 0.1", "scale: 1e-45")).find("normal positive"),
            std::string::npos);
  EXPECT_NE(ErrorWhere(Replaced(text, "  hash:", "  hsh:")).find("'hash'"), std::string::npos);
  EXPECT_NE(ErrorWhere(Replaced(text, "samples: 24", "smaples: 24")), "no error");
}

TEST(CalibrationFile, DamagedTextOnlyGivesErrors) {
  const std::string text = FormatCalibration(Example());
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'\0', '[', '}', ':', '\n', '&', '*', '%'}) {
      std::string damaged = text;
      damaged[i] = c;
      try {
        ParseCalibration(damaged, "c.yaml");
      } catch (const Error&) {
        continue;
      }
    }
    try {
      ParseCalibration(text.substr(0, i), "c.yaml");
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace hif8
