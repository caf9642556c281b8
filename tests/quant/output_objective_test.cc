// Scales that minimise the error of layers' outputs, against brute force in double.
#include "lib/quant/output_objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/quant/weight_quantizer.h"
#include "tests/quant/fake_model.h"
#include "tests/quant/layer_source.h"

namespace hif8 {
namespace {

constexpr size_t kIn = 12;

std::vector<float> Values(size_t n, uint32_t seed, float loud = 1) {
  std::mt19937 random(seed);
  std::student_t_distribution<float> t(3);
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = t(random) * (i % kIn == 2 ? loud : 1.0F);
  return values;
}

class OutputObjectiveTest : public testing::Test {
 protected:
  // Layers of so many outputs that share one input.
  void Start(const std::vector<int64_t>& outputs, const std::string& format) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto size = static_cast<size_t>(outputs[i]) * kIn;
      weights_.push_back(Values(size, 10 + static_cast<uint32_t>(i)));
      // A loud input that the layer hardly looks at: the tensor's error says little.
      for (size_t k = 2; k < size; k += kIn) weights_.back()[k] *= 0.01F;
      const int layer = model_.AddLinear("l" + std::to_string(i), outputs[i], kIn, weights_.back());
      model_.mutable_layers()[static_cast<size_t>(layer)].activation = 0;
    }
    const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
    plan_ = MakePlan(model_,
                     ParseRecipe("version: 1\nactivations: {rule: mse, format: " + format + "}\n",
                                 "recipe", context),
                     context);
    objective_.emplace(model_, plan_, source_);
    encode_ = [this](int index) {
      const WeightPlan& plan = plan_.weights.at(index);
      const Tensor tensor = model_.ReadWeight(index);
      WeightScales solved =
          SolveWeight("w", tensor.view, plan.layout, *plan.rule, *plan.format, plan.params);
      return EncodeWeight(tensor.view, plan.layout, std::move(solved.scales), *plan.format);
    };
  }

  // Sum over layers of the squared output error at that scale, in double.
  double Error(const std::vector<float>& x, float scale) const {
    const NumberFormat& format = *plan_.activations.at(0).format;
    std::vector<float> q(x.size());
    format.QuantizeDequantize(x, ScaleOperand::One(scale), q);
    double sum = 0;
    for (size_t l = 0; l < weights_.size(); ++l) {
      const std::vector<float>& w = weights_[l];
      std::vector<float> wq(w.size());
      DecodeWeight(encode_(static_cast<int>(l)), *plan_.weights.at(static_cast<int>(l)).format, wq);
      for (size_t r = 0; r < x.size() / kIn; ++r) {
        for (size_t o = 0; o < w.size() / kIn; ++o) {
          double d = 0;
          for (size_t k = 0; k < kIn; ++k) {
            d += static_cast<double>(q[r * kIn + k]) * wq[o * kIn + k] -
                 static_cast<double>(x[r * kIn + k]) * w[o * kIn + k];
          }
          sum += d * d;
        }
      }
    }
    return sum;
  }

  // The least error of the candidates that recipes name: twelfths of an octave, four each way.
  double LeastError(const std::vector<float>& x, float amax) const {
    const NumberFormat& format = *plan_.activations.at(0).format;
    double least = std::numeric_limits<double>::infinity();
    for (int k = -48; k <= 48; ++k) {
      const double scale = static_cast<double>(amax) / static_cast<double>(format.DefaultTarget()) *
                           std::exp2(k / 12.0);
      least = std::min(least, Error(x, static_cast<float>(scale)));
    }
    return least;
  }

  FakeModel model_;
  LayerSource source_{model_};
  QuantPlan plan_;
  std::vector<std::vector<float>> weights_;
  std::optional<OutputObjective> objective_;
  std::function<EncodedWeight(int)> encode_;
};

TEST_F(OutputObjectiveTest, EqualsBruteForceForLayersThatShareAnInput) {
  for (const char* format : {"hif8", "fp8_e4m3", "int8"}) {
    SCOPED_TRACE(format);
    model_ = FakeModel();
    weights_.clear();
    Start({5, 3}, format);
    const std::vector<float> x = Values(40 * kIn, 3, 30);  // fits the sample
    objective_->Add(0, View(x, {40, kIn}));
    TensorStats stats;
    stats.Add(View(x, {40, kIn}));
    const auto choice = objective_->Solve(0, stats, encode_);
    ASSERT_TRUE(choice.has_value());
    const double least = LeastError(x, stats.amax());
    // The second round may find better than the grid, never worse (fp32 sums: a little leeway).
    EXPECT_LE(Error(x, choice->scale), least * 1.0001);
    EXPECT_GT(Error(x, choice->scale), least * 0.7);
    const OperandPlan& operand = plan_.activations.at(0);
    const ScaleChoice tensor = operand.rule->Solve(stats, *operand.format, operand.params);
    EXPECT_LE(Error(x, choice->scale), Error(x, tensor.scale) * 1.0001);
    if (std::string(format) == "int8") {
      EXPECT_LT(Error(x, choice->scale), Error(x, tensor.scale) * 0.9)
          << "the tensor's own error should be another thing here";
    }
    EXPECT_EQ(choice->amax, stats.amax());
  }
}

TEST_F(OutputObjectiveTest, NothingWithoutASampleOrALayerThatStandsAlone) {
  Start({4}, "hif8");
  TensorStats stats;
  EXPECT_FALSE(objective_->Solve(0, stats, encode_).has_value());
  const std::vector<float> x = Values(4 * kIn, 3);
  stats.Add(View(x, {4, kIn}));
  objective_->Add(0, View(x, {4, kIn}));
  EXPECT_TRUE(objective_->Solve(0, stats, encode_).has_value());
  source_.alone = false;
  EXPECT_FALSE(objective_->Solve(0, stats, encode_).has_value());
}

std::vector<std::vector<float>> Sampled(const SliceSample& sample) {
  std::vector<std::vector<float>> values;
  for (const SliceSample::Slice& slice : sample.slices()) values.push_back(slice.values);
  return values;
}

TEST(SliceSample, IsTheSameHoweverTheDataIsCut) {
  const std::vector<float> x = Values(3000 * 4, 5);
  SliceSample whole;
  whole.Add(View(x, {3000, 4}));
  EXPECT_EQ(whole.slices().size(), SliceSample::kMostSlices);
  SliceSample pieces;
  for (size_t at = 0, size = 1; at < 3000; at += size, size = size % 97 + 1) {
    size = std::min(size, 3000 - at);
    const std::vector<float> part(x.begin() + static_cast<ptrdiff_t>(at * 4),
                                  x.begin() + static_cast<ptrdiff_t>((at + size) * 4));
    pieces.Add(View(part, {static_cast<int64_t>(size), 4}));
  }
  EXPECT_EQ(Sampled(pieces), Sampled(whole));
  // From all over the data.
  size_t late = 0;
  for (const auto& slice : Sampled(whole)) {
    const std::vector<float> last(x.begin() + 1500 * 4, x.end());
    for (size_t i = 0; i < last.size(); i += 4) {
      if (std::equal(slice.begin(), slice.end(), last.begin() + static_cast<ptrdiff_t>(i))) ++late;
    }
  }
  EXPECT_GT(late, 16u);
  EXPECT_LT(late, 48u);
}

TEST(SliceSample, IsBoundedAndFinite) {
  SliceSample sample;
  std::vector<float> x(SliceSample::kMostElements / 4 + 1, 1.0F);
  const Shape shape = {1, static_cast<int64_t>(x.size())};
  for (int i = 0; i < 20; ++i) sample.Add(View(x, shape));
  EXPECT_EQ(sample.slices().size(), 3u) << "four would be too many elements";
  SliceSample large;
  x.assign(2 * SliceSample::kMostElements, 1.0F);
  for (int i = 0; i < 5; ++i) large.Add(View(x, {1, static_cast<int64_t>(x.size())}));
  EXPECT_EQ(large.slices().size(), 1u);
  SliceSample bad;
  const float values[] = {1, std::numeric_limits<float>::quiet_NaN(), 3, 4};
  bad.Add(View(values, {2, 2}));
  ASSERT_EQ(bad.slices().size(), 1u);
  EXPECT_THAT(bad.slices()[0].values, testing::ElementsAre(3, 4));
}

}  // namespace
}  // namespace hif8
