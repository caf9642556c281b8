#include "lib/runtime/captured_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/model/safetensors/checkpoint.h"
#include "tests/model/safetensors/checkpoint_files.h"

namespace hif8 {
namespace {

using ::testing::HasSubstr;

// A network of an unknown kind: two Linear.
class CapturedSourceTest : public ::testing::Test {
 protected:
  CapturedSourceTest() {
    test::WriteBytes(model_.path() / "model.safetensors",
                     test::FileOf({{"net.a.weight", "F32", {1, 2}, test::F32Bytes({1, 2})},
                                   {"net.b.weight", "F32", {1, 2}, test::F32Bytes({1, 2})}}));
    checkpoint_ = Checkpoint::Open(model_.path(), StoredFormats());
  }
  void Put(const std::string& name, const std::vector<test::RawTensor>& tensors) {
    test::WriteBytes(data_.path() / name, test::FileOf(tensors));
  }
  int Activation(const std::string& layer) const {
    return checkpoint_->layers()[static_cast<size_t>(checkpoint_->LayerIndex(layer))].activation;
  }
  std::unique_ptr<ActivationSource> Make() {
    return MakeCapturedSource(checkpoint_, data_.path(), 0, BuiltinFormats(), NullLog());
  }

  test::TemporaryFolder model_, data_;
  std::shared_ptr<const Checkpoint> checkpoint_;
};

TEST_F(CapturedSourceTest, EveryLayerHasItsOwnInput) {
  Put("10.safetensors", {{"net.a", "F32", {1, 2}, test::F32Bytes({-7, 0})}});
  Put("2.safetensors", {{"net.a", "BF16", {3, 1, 2}, test::Bf16Bytes({1, 2, 3, -4, 5, 6})},
                        {"net.b", "F32", {2}, test::F32Bytes({0.5f, 0.25f})},
                        {"other", "I64", {0}, ""}});
  const auto source = Make();
  EXPECT_EQ(source->samples(), 2u);
  ASSERT_NE(Activation("net.a"), Activation("net.b"));
  const int wanted[] = {Activation("net.a"), Activation("net.b")};
  const auto stats = source->Collect(wanted);
  const TensorStats& a = stats[static_cast<size_t>(wanted[0])];
  EXPECT_EQ(a.count(), 8u);
  EXPECT_EQ(a.amax(), 7.0f);
  EXPECT_EQ(std::vector<float>(a.trace().begin(), a.trace().end()), (std::vector<float>{6, 7}));
  EXPECT_EQ(stats[static_cast<size_t>(wanted[1])].amax(), 0.5f);
}

TEST_F(CapturedSourceTest, MeasuresTheInputs) {
  Put("0.safetensors", {{"net.a", "F32", {3}, test::F32Bytes({1.0f, 1.03f, 20})}});
  const auto source = Make();
  std::map<int, QuantizedActivation> quantized;
  quantized[Activation("net.a")] = {{.format = &BuiltinFormats().Get("hif8"), .clip = 16}, 16};
  const Measurement m = source->Measure({}, quantized, {});
  const ErrorMetrics& error = m.activation[static_cast<size_t>(Activation("net.a"))];
  // 1 is exact, 1.03 rounds to 1, 20 is clipped to 16.
  const double noise = std::pow(double{1.03f} - 1, 2) + 16;
  const double signal = 1 + std::pow(double{1.03f}, 2) + 400;
  EXPECT_NEAR(error.SqnrDb(), 10 * std::log10(signal / noise), 1e-9);
  EXPECT_NEAR(error.ExceededRate(), 1.0 / 3, 1e-12);
}

TEST_F(CapturedSourceTest, FoldersThatHoldNothing) {
  EXPECT_THROW(Make(), Error);
  Put("0.safetensors", {{"net.a", "I64", {1}, std::string(8, '\0')}});
  const int wanted[] = {Activation("net.a")};
  try {
    Make()->Collect(wanted);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel);
    EXPECT_THAT(error.message(), HasSubstr("'net.a'"));
    EXPECT_THAT(error.message(), HasSubstr("I64"));
  }
}

}  // namespace
}  // namespace hif8
