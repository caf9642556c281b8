#include "lib/model/onnx/onnx_proto.h"

#include <gtest/gtest.h>

#include <cstring>

#include "lib/core/error.h"

namespace hif8 {
namespace {

TEST(MakeTensor, HoldsTheValuesAndNoOthers) {
  const onnx::TensorProto tensor = MakeTensor("t", {2, 1}, std::vector<float>{1.5F, -2});
  float values[2];
  ASSERT_EQ(tensor.raw_data().size(), sizeof(values));
  std::memcpy(values, tensor.raw_data().data(), sizeof(values));
  EXPECT_EQ(values[0], 1.5F);
  EXPECT_EQ(values[1], -2);
  for (const size_t count : {0, 1, 3}) {
    EXPECT_THROW(MakeTensor("t", {2, 1}, std::vector<float>(count)), Error) << count;
    EXPECT_THROW(MakeTensor("t", {2, 1}, std::vector<int64_t>(count)), Error) << count;
  }
}

}  // namespace
}  // namespace hif8
