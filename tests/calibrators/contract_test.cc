// What every registered scale rule owes, over every format.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "tests/calibrators/plain_format.h"

namespace hif8 {
namespace {

// Every rule with every format: the project's and two plain ones.
class ContractTest : public testing::Test {
 protected:
  template <typename F>
  void ForAll(const F& check) {
    std::vector<const NumberFormat*> formats = {&steps_, &floating_};
    for (const std::string& name : BuiltinFormats().names()) {
      formats.push_back(&BuiltinFormats().Get(name));
    }
    for (const std::string& name : BuiltinCalibrators().names()) {
      for (const NumberFormat* format : formats) {
        SCOPED_TRACE(name + " with " + std::string(format->name()));
        check(BuiltinCalibrators().Get(name), *format);
      }
    }
  }

 private:
  const PlainFormat steps_ = Steps();
  const PlainFormat floating_ = Floating();
};

std::vector<ScaleParams> Variants() {
  ScaleParams plain;
  ScaleParams power;
  power.power_of_two = true;
  ScaleParams bf16;
  bf16.scale_dtype = ScaleDType::kBF16;
  ScaleParams both = bf16;
  both.power_of_two = true;
  both.percentile = 50;
  ScaleParams low_target;
  low_target.target = 1e-6;
  ScaleParams high_target;
  high_target.target = 1e30;
  return {plain, power, bf16, both, low_target, high_target};
}

void ExpectUsable(const ScaleChoice& choice, const ScaleParams& params) {
  EXPECT_TRUE(std::isnormal(choice.scale)) << choice.scale;
  EXPECT_GT(choice.scale, 0);
  EXPECT_TRUE(std::isfinite(choice.amax / choice.scale)) << choice.amax << " / " << choice.scale;
  if (params.power_of_two) {
    int exponent;
    EXPECT_EQ(std::frexp(choice.scale, &exponent), 0.5F);
  }
  if (params.scale_dtype == ScaleDType::kBF16) {
    EXPECT_EQ(std::bit_cast<uint32_t>(choice.scale) & 0xFFFF, 0U);
  }
}

TEST_F(ContractTest, NamesAndDescriptions) {
  const CalibratorRegistry& rules = BuiltinCalibrators();
  EXPECT_EQ(rules.names(),
            (std::vector<std::string>{"max", "percentile", "mse", "ema", "delayed", "cast"}));
  for (const std::string& name : rules.names()) {
    EXPECT_EQ(rules.Get(name).name(), name);
    EXPECT_FALSE(rules.Get(name).description().empty());
  }
  EXPECT_FALSE(rules.Get("cast").traits().needs_data);
  for (const char* name : {"ema", "delayed"}) {
    EXPECT_TRUE(rules.Get(name).traits().order_dependent);
    EXPECT_FALSE(rules.Get(name).traits().weights);
  }
}

TEST_F(ContractTest, ScalesAreAlwaysUsable) {
  constexpr float kMax = std::numeric_limits<float>::max();
  std::vector<std::vector<float>> data = {
      {1.0F},   {kMax, -kMax, 1e-30F}, {kMax, 1e-45F, 1e-45F, 1e-45F, 1e-45F},
      {1e-45F}, {1e-38F, 2e-38F},      {1.1754944e-38F}};
  std::vector<float> wide(3000, 1e-40F);  // long enough for tables of sums
  wide[7] = kMax;
  data.push_back(wide);
  data.push_back(std::vector<float>(2000, 1e-44F));
  data.push_back(std::vector<float>(2000, kMax));
  for (const ScaleParams& params : Variants()) {
    ForAll([&](const Calibrator& rule, const NumberFormat& format) {
      for (const std::vector<float>& values : data) {
        ExpectUsable(rule.Solve(values, format, params), params);
        ExpectUsable(rule.Solve(Record(values), format, params), params);
      }
    });
  }
}

TEST_F(ContractTest, NothingButZerosGivesOne) {
  for (const size_t n : {1, 1000}) {
    const std::vector<float> zeros(n, 0.0F);
    for (const ScaleParams& params : Variants()) {
      ForAll([&](const Calibrator& rule, const NumberFormat& format) {
        EXPECT_EQ(rule.Solve(zeros, format, params).scale, 1.0F);
        EXPECT_EQ(rule.Solve(Record(zeros), format, params).scale, 1.0F);
      });
    }
  }
}

TEST_F(ContractTest, SameDataSameChoice) {
  const std::vector<float> values = Draw(Shape1D::kHeavyTail, 3000, 5);
  ForAll([&](const Calibrator& rule, const NumberFormat& format) {
    const ScaleChoice one = rule.Solve(values, format, {});
    // Another channel in between must leave nothing behind.
    rule.Solve(Draw(Shape1D::kOutliers, 5000, 6), format, {});
    const ScaleChoice two = rule.Solve(values, format, {});
    EXPECT_EQ(one.scale, two.scale);
    EXPECT_EQ(one.reference, two.reference);
    EXPECT_EQ(rule.Solve(Record(values), format, {}).scale,
              rule.Solve(Record(values), format, {}).scale);
  });
}

TEST_F(ContractTest, RecordsAgreeWithValues) {
  for (int shape = 0; shape < 5; ++shape) {
    const std::vector<float> values = Draw(static_cast<Shape1D>(shape), 6000, 11);
    const TensorStats stats = Record(values);
    ForAll([&](const Calibrator& rule, const NumberFormat& format) {
      SCOPED_TRACE(shape);
      const ScaleChoice exact = rule.Solve(values, format, {});
      const ScaleChoice streamed = rule.Solve(stats, format, {});
      EXPECT_EQ(exact.amax, streamed.amax);
      EXPECT_EQ(exact.target, streamed.target);
      if (rule.name() == "percentile") {
        EXPECT_NEAR(streamed.scale, exact.scale, exact.scale / 128);
      } else if (rule.name() == "mse") {
        const double a = PlainError(values, format, exact.scale);
        const double b = PlainError(values, format, streamed.scale);
        EXPECT_NEAR(10 * std::log10(b / a), 0, 0.05);
      } else {
        EXPECT_EQ(exact.scale, streamed.scale);
      }
    });
  }
}

TEST_F(ContractTest, PiecesAgreeWithTheWhole) {
  std::vector<float> few_bits = Draw(Shape1D::kNormal, 5000, 4);
  for (float& v : few_bits) v = std::bit_cast<float>(std::bit_cast<uint32_t>(v) & 0xFFFF0000U);
  for (const std::vector<float>& values :
       {Draw(Shape1D::kHeavyTail, 7001, 12), Draw(Shape1D::kOutliers, 1, 2), few_bits,
        std::vector<float>(300, 0.0F), std::vector<float>()}) {
    const ValuePieces pieces = [&](const auto& visit) {
      for (size_t at = 0; at < values.size(); at += 999) {
        visit(std::span(values).subspan(at, std::min<size_t>(999, values.size() - at)));
      }
    };
    for (const ScaleParams& params : Variants()) {
      ForAll([&](const Calibrator& rule, const NumberFormat& format) {
        if (!rule.traits().weights) return;
        SCOPED_TRACE(values.size());
        const ScaleChoice whole = rule.Solve(values, format, params);
        const ScaleChoice found = rule.SolvePieces(pieces, format, params);
        EXPECT_EQ(found.amax, whole.amax);
        EXPECT_EQ(found.target, whole.target);
        EXPECT_EQ(found.note, whole.note);
        if (rule.name() != "mse") {
          EXPECT_EQ(found.scale, whole.scale);
          EXPECT_EQ(found.reference, whole.reference);
          return;
        }
        const double a = PlainError(values, format, whole.scale);
        const double b = PlainError(values, format, found.scale);
        EXPECT_LE(b, a * std::pow(10, 0.005)) << "more than 0.05 dB";
        const ScaleChoice max = BuiltinCalibrators().Get("max").Solve(values, format, params);
        EXPECT_LE(b, PlainError(values, format, max.scale));
      });
    }
  }
}

TEST_F(ContractTest, ReferenceAndTargetExplainTheScale) {
  const std::vector<float> values = Draw(Shape1D::kNormal, 2000, 3);
  ForAll([&](const Calibrator& rule, const NumberFormat& format) {
    const ScaleChoice choice = rule.Solve(values, format, {});
    EXPECT_NEAR(choice.reference / choice.target, choice.scale, choice.scale * 1e-6);
    const bool is_cast = rule.name() == "cast";
    EXPECT_EQ(choice.target, is_cast ? format.MaxFinite() : format.DefaultTarget());
  });
}

}  // namespace
}  // namespace hif8
