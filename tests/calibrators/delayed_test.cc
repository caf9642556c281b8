// Delayed scaling against a straightforward replay, and what is known about its rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "calibrators/builtin.h"
#include "lib/quant/delayed_scaling.h"
#include "tests/calibrators/plain_format.h"

namespace hif8 {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DelayedRule kRules[] = {DelayedRule::kMostRecent, DelayedRule::kExpSmooth,
                                  DelayedRule::kMax, DelayedRule::kCurrent};

DelayedParams Params(DelayedRule rule, int64_t history = 64, int64_t interval = 1,
                     double alpha = 0.1) {
  return {rule, history, interval, alpha};
}

struct Replay {
  std::vector<double> used;    // at every step
  std::optional<double> next;  // after the last
};

// Every estimate from the whole list of measurements since the last restart.
Replay Reference(const std::vector<float>& trace, const DelayedParams& p) {
  Replay replay;
  std::vector<float> pushed;
  const auto estimate = [&]() -> std::optional<double> {
    if (pushed.empty()) return std::nullopt;
    if (p.rule == DelayedRule::kMax) {
      double most = 0;
      const auto window = static_cast<int64_t>(pushed.size()) - p.history;
      for (auto i = std::max<int64_t>(0, window); i < static_cast<int64_t>(pushed.size()); ++i) {
        most = std::max<double>(most, pushed[static_cast<size_t>(i)]);
      }
      return most;
    }
    if (p.rule == DelayedRule::kExpSmooth) {
      double smooth = pushed[0];
      for (size_t i = 1; i < pushed.size(); ++i) {
        smooth = p.alpha * pushed[i] + (1 - p.alpha) * smooth;
      }
      return smooth;
    }
    return pushed.back();
  };
  for (size_t t = 0; t < trace.size(); ++t) {
    const float amax = trace[t];
    const std::optional<double> before = estimate();
    const bool own = p.rule == DelayedRule::kCurrent && !std::isnan(amax);
    replay.used.push_back(own ? amax : before.value_or(amax));
    if (std::isnan(amax)) {
      pushed.clear();
    } else if (p.rule == DelayedRule::kCurrent || static_cast<int64_t>(t) % p.interval == 0) {
      pushed.push_back(amax);
    }
  }
  replay.next = estimate();
  return replay;
}

bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TEST(DelayedScaling, EqualsTheReferenceOnRandomTraces) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> exponent(-20, 20);
  const Calibrator& rule = BuiltinCalibrators().Get("delayed");
  const PlainFormat format = Steps();
  for (int round = 0; round < 1000; ++round) {
    std::vector<float> trace(1 + random() % 300);
    for (float& v : trace) v = random() % 40 == 0 ? kNan : std::exp2(exponent(random));
    DelayedParams params =
        Params(kRules[round % 4], 1 + static_cast<int64_t>(random() % 80),
               1 + static_cast<int64_t>(random() % 20), 0.001 + exponent(random) / 41 + 0.49);
    const Replay expected = Reference(trace, params);
    DelayedScaling replay(params);
    for (size_t t = 0; t < trace.size(); ++t) {
      const double used = replay.Step(trace[t]);
      ASSERT_TRUE(Same(used, expected.used[t])) << "round " << round << " step " << t;
    }
    ASSERT_EQ(replay.Estimate(), expected.next) << "round " << round;
    ASSERT_EQ(replay.step(), static_cast<int64_t>(trace.size()));

    // Through the calibrator, from a record with one value per sample.
    if (std::all_of(trace.begin(), trace.end(), [](float v) { return std::isnan(v); })) continue;
    TensorStats stats;
    stats.Add({DType::kF32,
               {static_cast<int64_t>(trace.size())},
               reinterpret_cast<const std::byte*>(trace.data())},
              trace.size());
    ScaleParams scale_params;
    scale_params.delayed = params;
    const ScaleChoice choice = rule.Solve(stats, format, scale_params);
    ASSERT_EQ(choice.reference, expected.next ? static_cast<float>(*expected.next) : stats.amax());
    ASSERT_EQ(choice.note.empty(), expected.next.has_value());
    ASSERT_EQ(choice.scale, choice.reference / 127);
  }
}

std::vector<size_t> Exceeded(const std::vector<float>& trace, const DelayedParams& params) {
  DelayedScaling replay(params);
  std::vector<size_t> steps;
  for (size_t t = 0; t < trace.size(); ++t) {
    if (trace[t] > replay.Step(trace[t])) steps.push_back(t);
  }
  return steps;
}

// A sawtooth of period 8: most_recent is exceeded at every rise, max only until its window has seen
// a period.
TEST(DelayedScaling, Sawtooth) {
  std::vector<float> trace;
  trace.reserve(200);
  for (int t = 0; t < 200; ++t) trace.push_back(static_cast<float>(1 + t % 8));
  std::vector<size_t> rises;
  for (size_t t = 1; t < trace.size(); ++t) {
    if (trace[t] > trace[t - 1]) rises.push_back(t);
  }
  EXPECT_EQ(Exceeded(trace, Params(DelayedRule::kMostRecent)), rises);
  EXPECT_EQ(Exceeded(trace, Params(DelayedRule::kMax)), (std::vector<size_t>{1, 2, 3, 4, 5, 6, 7}));
  // A window shorter than a period forgets the peak again.
  EXPECT_GT(Exceeded(trace, Params(DelayedRule::kMax, 4)).size(), 20U);
  EXPECT_TRUE(Exceeded(trace, Params(DelayedRule::kCurrent)).empty());
}

// A spike every 10 steps: exp_smooth is exceeded at each, max 64 at the first only.
TEST(DelayedScaling, SpikeEveryTenSteps) {
  std::vector<float> trace;
  std::vector<size_t> spikes;
  for (size_t t = 0; t < 300; ++t) {
    const bool spike = t % 10 == 5;
    trace.push_back(spike ? 10.0F : 1.0F);
    if (spike) spikes.push_back(t);
  }
  EXPECT_EQ(Exceeded(trace, Params(DelayedRule::kExpSmooth)), spikes);
  EXPECT_EQ(Exceeded(trace, Params(DelayedRule::kMostRecent)), spikes);
  EXPECT_EQ(Exceeded(trace, Params(DelayedRule::kMax)), std::vector<size_t>{5});
  // Measured every tenth step only, and never at a spike, max sees none of them.
  EXPECT_EQ(Exceeded(trace, Params(DelayedRule::kMax, 64, 10)), spikes);
}

// A strictly rising series: every estimate from the past is exceeded at every step but the first.
TEST(DelayedScaling, RisingSeries) {
  std::vector<float> trace;
  trace.reserve(100);
  for (int t = 0; t < 100; ++t) trace.push_back(1.0F + 0.01F * static_cast<float>(t));
  for (const DelayedRule rule :
       {DelayedRule::kMostRecent, DelayedRule::kExpSmooth, DelayedRule::kMax}) {
    EXPECT_EQ(Exceeded(trace, Params(rule)).size(), 99U) << NameOf(rule);
  }
  EXPECT_TRUE(Exceeded(trace, Params(DelayedRule::kCurrent)).empty());
}

TEST(DelayedScaling, NanStepUpdatesNothingAndRestarts) {
  for (const DelayedRule rule : kRules) {
    DelayedScaling replay(Params(rule));
    EXPECT_EQ(replay.Step(8), 8);  // the first step uses its own
    EXPECT_EQ(*replay.Estimate(), 8);
    replay.Step(kNan);
    EXPECT_FALSE(replay.Estimate().has_value()) << NameOf(rule);
    EXPECT_TRUE(replay.history().empty());
    EXPECT_EQ(replay.Step(2), 2);  // as if it were the first
    EXPECT_EQ(*replay.Estimate(), 2);
    EXPECT_EQ(replay.step(), 3);
  }
}

// After a restart the schedule goes on: nothing is measured before the next step of the interval.
TEST(DelayedScaling, RestartWaitsForTheNextMeasurement) {
  DelayedScaling replay(Params(DelayedRule::kMax, 64, 5));
  for (const float amax : {4.0F, 9.0F, kNan}) replay.Step(amax);  // steps 0, 1, 2
  EXPECT_EQ(replay.Step(3), 3);  // steps 3 and 4 have their own only
  EXPECT_EQ(replay.Step(6), 6);
  EXPECT_FALSE(replay.Estimate().has_value());
  EXPECT_EQ(replay.Step(2), 2);  // step 5 is measured
  EXPECT_EQ(replay.Step(7), 2);
}

TEST(DelayedScaling, StateIsWhatTheNextRunNeeds) {
  DelayedScaling replay(Params(DelayedRule::kMax, 3));
  for (const float amax : {5.0F, 1.0F, 2.0F, 3.0F}) replay.Step(amax);
  EXPECT_EQ(std::vector<float>(replay.history().begin(), replay.history().end()),
            (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(*replay.Estimate(), 3);
}

TEST(DelayedScaling, RuleNames) {
  for (const DelayedRule rule : kRules) {
    EXPECT_EQ(FromName<DelayedRule>(NameOf(rule)), rule);
  }
  EXPECT_FALSE(FromName<DelayedRule>("newest").has_value());
}

}  // namespace
}  // namespace hif8
