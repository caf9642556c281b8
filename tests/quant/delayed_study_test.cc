// The rules of delayed scaling on made-up series whose outcome is known.
#include "lib/quant/delayed_study.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "tests/quant/fake_model.h"

namespace hif8 {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kMostRecent = 0, kExpSmooth = 1, kMax = 2, kCurrent = 3;  // as in kDelayedRules

class DelayedStudyTest : public testing::Test {
 protected:
  void Start(const std::string& recipe) {
    const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
    plan_ = MakePlan(model_, ParseRecipe("version: 1\n" + recipe, "recipe", context), context);
    study_ = std::make_unique<DelayedStudy>(plan_);
  }
  void SetUp() override {
    model_.AddLinear("fc", 2, 4);
    Start("delayed: {history: 64, interval: 1, alpha: 0.1}\n");
  }

  void Step(const std::vector<float>& values, size_t samples = 1) {
    study_->Add(0,
                {DType::kF32,
                 {static_cast<int64_t>(values.size())},
                 reinterpret_cast<const std::byte*>(values.data())},
                samples);
  }
  // Steps of five values, of which the first reaches the amax, the second 3/4 of it.
  void Series(const std::vector<float>& amaxes) {
    for (const float a : amaxes) Step({-a, a * 0.75F, a * 0.5F, a * 0.125F, 0});
  }
  const DelayedOutcome& Of(size_t rule) const { return study_->replays().at(0).at(rule).outcome; }

  FakeModel model_;
  QuantPlan plan_;
  std::unique_ptr<DelayedStudy> study_;
};

TEST_F(DelayedStudyTest, Sawtooth) {
  std::vector<float> series;
  series.reserve(200);
  for (int t = 0; t < 200; ++t) series.push_back(static_cast<float>(1 + t % 8));
  Series(series);
  // Seven rises in each of 25 periods; the rise from 1 to 2 leaves 1.5 above 1 too, that from 2 to
  // 3 leaves 2.25 above 2; from 3 to 4 it is 3, which does not exceed.
  EXPECT_EQ(Of(kMostRecent).exceeded_steps, 25u * 7);
  EXPECT_EQ(Of(kMostRecent).exceeded_elements, 25u * (7 + 2));
  EXPECT_DOUBLE_EQ(Of(kMostRecent).overshoot, 1);  // from 1 to 2
  EXPECT_EQ(Of(kMax).exceeded_steps, 7u) << "only until the window has seen a period";
  EXPECT_EQ(Of(kMax).exceeded_elements, 7u + 2);
  EXPECT_EQ(Of(kCurrent).exceeded_steps, 0u);
  EXPECT_EQ(Of(kCurrent).overshoot, 0);
  for (size_t rule = 0; rule < 4; ++rule) {
    EXPECT_EQ(Of(rule).steps, 200u);
    EXPECT_EQ(Of(rule).elements, 1000u);
    EXPECT_EQ(Of(rule).overflowed_steps, 0u) << "HiF8 has eleven binades above the target";
    EXPECT_EQ(Of(rule).non_finite_steps, 0u);
  }
}

TEST_F(DelayedStudyTest, ExactStepsAreLeftOutOfMeans) {
  Step({1, 0.5F, 0.25F});  // powers of two, and their scale is one
  EXPECT_EQ(Of(kCurrent).plain.Mean(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Of(kCurrent).plain.Worst(), std::numeric_limits<double>::infinity());
  Step({1, 0.53F, 0.27F});
  const double finite = Of(kCurrent).plain.Worst();
  EXPECT_TRUE(std::isfinite(finite));
  EXPECT_EQ(Of(kCurrent).plain.Mean(), finite);
  EXPECT_TRUE(std::isnan(StepSqnr().Mean()));
}

TEST_F(DelayedStudyTest, TraceKeepsEveryStepOfAShortRun) {
  Series({2, kNan, 8, 4, 1});
  const DelayedTrace& trace = study_->trace(0);
  EXPECT_EQ(trace.stride(), 1);
  ASSERT_EQ(trace.points().size(), 5u);
  EXPECT_EQ(trace.points()[2].amax, 8);
  EXPECT_EQ(trace.points()[2].estimates[kMostRecent], 8) << "the history was emptied";
  EXPECT_EQ(trace.points()[3].estimates[kMostRecent], 8);
  EXPECT_DOUBLE_EQ(trace.points()[4].estimates[kExpSmooth], 0.1 * 4 + 0.9 * 8);
  EXPECT_EQ(trace.points()[4].estimates[kMax], 8);
  EXPECT_EQ(trace.points()[4].estimates[kCurrent], 1);
  EXPECT_TRUE(std::isnan(trace.points()[1].amax));
}

TEST_F(DelayedStudyTest, TraceOfALongRunKeepsThePeaks) {
  std::vector<float> series(1000, 1.0F);
  std::mt19937 random(3);
  for (float& amax : series) amax += static_cast<float>(random() % 1000) / 1000;
  series[333] = 50;
  series[700] = kNan;
  Series(series);
  const DelayedTrace& trace = study_->trace(0);
  EXPECT_EQ(trace.stride(), 8);
  ASSERT_EQ(trace.points().size(), 125u);
  for (size_t i = 0; i < trace.points().size(); ++i) {
    const DelayedTrace::Point& point = trace.points()[i];
    size_t largest = 8 * i;
    for (size_t t = 8 * i; t < 8 * (i + 1); ++t) {
      if (series[t] > series[largest]) largest = t;
    }
    EXPECT_EQ(point.step, static_cast<int64_t>(largest));
    EXPECT_EQ(point.amax, series[largest]);
    const bool restarted = largest == 701;
    EXPECT_EQ(point.estimates[kMostRecent],
              series[largest == 0 || restarted ? largest : largest - 1]);
  }
}

TEST_F(DelayedStudyTest, SpikeEveryTenSteps) {
  std::vector<float> series;
  series.reserve(300);
  for (int t = 0; t < 300; ++t) series.push_back(t % 10 == 5 ? 64.0F : 1.0F);
  Series(series);
  EXPECT_EQ(Of(kExpSmooth).exceeded_steps, 30u);
  EXPECT_EQ(Of(kMostRecent).exceeded_steps, 30u);
  EXPECT_EQ(Of(kMax).exceeded_steps, 1u);
  EXPECT_DOUBLE_EQ(Of(kMax).overshoot, 6);
  EXPECT_DOUBLE_EQ(Of(kMostRecent).overshoot, 6);
  EXPECT_DOUBLE_EQ(Of(kExpSmooth).overshoot, 6) << "largest at the first spike";
  // Clipped at 1 the spike 64, 48, 32, 8 becomes 1, 1, 1, 1, whatever else is lost: every one of
  // these has an SQNR of sum x^2 / sum (x - 1)^2.
  const double signal = 64.0 * 64 + 48 * 48 + 32 * 32 + 8 * 8;
  const double noise = 63.0 * 63 + 47 * 47 + 31 * 31 + 7 * 7;
  EXPECT_NEAR(Of(kMax).clipped.Worst(), 10 * std::log10(signal / noise), 1e-6);
  EXPECT_NEAR(Of(kMostRecent).clipped.Worst(), 10 * std::log10(signal / noise), 1e-6);
  EXPECT_GT(Of(kMax).plain.Worst(), 20) << "unclipped it is within the format";
  EXPECT_EQ(Of(kCurrent).clipped.Worst(), Of(kCurrent).plain.Worst());
  EXPECT_EQ(Of(kMax).clipped.steps, 300u);
}

TEST_F(DelayedStudyTest, RisingSeriesExceedsEveryEstimateFromThePast) {
  std::vector<float> series;
  series.reserve(100);
  for (int t = 0; t < 100; ++t) series.push_back(std::exp2(static_cast<float>(t) / 4));
  Series(series);
  for (const size_t rule : {kMostRecent, kExpSmooth, kMax}) {
    EXPECT_EQ(Of(rule).exceeded_steps, 99u) << rule;
  }
  EXPECT_NEAR(Of(kMostRecent).overshoot, 0.25, 1e-6);
  EXPECT_GT(Of(kExpSmooth).overshoot, 0.25);
  EXPECT_EQ(Of(kCurrent).exceeded_steps, 0u);
}

TEST_F(DelayedStudyTest, NanStepIsCountedAndRestarts) {
  Series({8, 4});
  Step({1, kNan, 2, 3, 4});
  Step({1, std::numeric_limits<float>::infinity(), 2, 3, 4});
  Series({2, 4});
  for (size_t rule = 0; rule < 4; ++rule) {
    EXPECT_EQ(Of(rule).steps, 6u);
    EXPECT_EQ(Of(rule).non_finite_steps, 2u);
    EXPECT_EQ(Of(rule).elements, 20u);
    const DelayedScaling& scaling = study_->replays().at(0)[rule].scaling;
    EXPECT_EQ(scaling.step(), 6);
    for (const float amax : scaling.history()) EXPECT_LE(amax, 4) << "8 is forgotten";
  }
  // After the restart 2 uses its own amax, then 4 exceeds it; 4 after 8 exceeds nothing.
  EXPECT_EQ(Of(kMax).exceeded_steps, 1u);
  EXPECT_EQ(Of(kMostRecent).exceeded_steps, 1u);
}

TEST_F(DelayedStudyTest, OverflowIsCountedElementByElement) {
  Series({1});
  // At target 16 the scale is 1/16: 2560 becomes 40960, where HiF8 overflows.
  Step({2560, -2600, 2559, 1, 0});
  EXPECT_EQ(Of(kMax).overflowed_steps, 1u);
  EXPECT_EQ(Of(kMax).overflowed_elements, 2u);
  EXPECT_EQ(Of(kMax).exceeded_elements, 3u) << "1 does not exceed 1";
  EXPECT_EQ(Of(kCurrent).overflowed_elements, 0u);
}

TEST_F(DelayedStudyTest, CountsAreThoseOfAPlainReplay) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<double> exceeded(4), steps(4);
  std::vector<DelayedScaling> scalings;
  scalings.reserve(exceeded.size());
  for (const DelayedRule rule : kDelayedRules)
    scalings.emplace_back(DelayedParams{rule, 64, 1, 0.1});
  double signal_db = 0;
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  for (int t = 0; t < 50; ++t) {
    std::vector<float> x(257);
    for (float& v : x) v = normal(random);
    Step(x);
    float amax = 0;
    for (const float v : x) amax = std::max(amax, std::fabs(v));
    for (size_t rule = 0; rule < 4; ++rule) {
      const double estimate = scalings[rule].Step(amax);
      double above = 0;
      for (const float v : x) above += std::fabs(v) > estimate ? 1 : 0;
      exceeded[rule] += above;
      steps[rule] += above > 0 ? 1 : 0;
      if (rule != kMax) continue;
      const float scale = static_cast<float>(estimate) / 16;
      double signal = 0;
      double noise = 0;
      for (const float v : x) {
        const float y = format.DecodeTable()[format.EncodeOne(v / scale, Overflow::kSaturate)];
        signal += static_cast<double>(v) * v;
        noise += std::pow(static_cast<double>(v) - static_cast<double>(y * scale), 2);
      }
      signal_db += 10 * std::log10(signal / noise);
    }
  }
  for (size_t rule = 0; rule < 4; ++rule) {
    EXPECT_EQ(static_cast<double>(Of(rule).exceeded_elements), exceeded[rule]) << rule;
    EXPECT_EQ(static_cast<double>(Of(rule).exceeded_steps), steps[rule]) << rule;
  }
  EXPECT_GT(exceeded[kMostRecent], exceeded[kMax]);
  EXPECT_NEAR(Of(kMax).plain.Mean(), signal_db / 50, 1e-9);
}

TEST_F(DelayedStudyTest, SamplesOfOneTensorAreStepsInOrder) {
  Step({1, 0.5F, 3, 1, 2, 2}, 3);  // amax 1, 3, 2
  EXPECT_EQ(Of(kMostRecent).steps, 3u);
  EXPECT_EQ(Of(kMostRecent).exceeded_steps, 1u);
  EXPECT_EQ(Of(kMostRecent).exceeded_elements, 1u);
  Step({});
  EXPECT_EQ(Of(kMostRecent).steps, 3u) << "nothing is no step";
  Step({0, 0});
  EXPECT_EQ(Of(kMostRecent).plain.steps, 3u) << "zeros have no SQNR";
}

TEST_F(DelayedStudyTest, StateIsWhatTrainingGoesOnWith) {
  Start("delayed: {history: 3, interval: 1, alpha: 0.25}\nactivations: {target: 8}\n");
  Series({5, 1, 2, 3});
  const YAML::Node state = YAML::Load(study_->State(model_, {"f", "abc", 4}));
  EXPECT_EQ(state["version"].as<int>(), 1);
  EXPECT_EQ(state["model"].as<std::string>(), "abc");
  ASSERT_EQ(state["activations"].size(), 1u);
  const YAML::Node fc = state["activations"][0];
  EXPECT_EQ(fc["tensor"].as<std::string>(), "fc.input");
  EXPECT_EQ(fc["target"].as<double>(), 8);
  EXPECT_EQ(fc["history"].as<int>(), 3);
  EXPECT_EQ(fc["rules"]["max"]["step"].as<int>(), 4);
  EXPECT_EQ(fc["rules"]["max"]["estimate"].as<double>(), 3);
  EXPECT_EQ(fc["rules"]["max"]["history"].as<std::vector<float>>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(fc["rules"]["most_recent"]["history"].as<std::vector<float>>(), std::vector<float>{3});
  // 5 -> 0.25 + 3.75 = 4 -> 0.5 + 3 = 3.5 -> 0.75 + 2.625
  EXPECT_EQ(fc["rules"]["exp_smooth"]["estimate"].as<double>(), 3.375);
  EXPECT_EQ(fc["rules"]["current"]["estimate"].as<double>(), 3);
  Step({kNan});
  const YAML::Node restarted = YAML::Load(study_->State(model_, {"f", "abc", 4}));
  EXPECT_TRUE(restarted["activations"][0]["rules"]["max"]["estimate"].IsNull());
  EXPECT_EQ(restarted["activations"][0]["rules"]["max"]["history"].size(), 0u);
}

}  // namespace
}  // namespace hif8
