#include "lib/core/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "lib/core/error.h"

namespace hif8 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MemoryTest, SizesAreReadAndWritten) {
  EXPECT_EQ(ParseSize("1"), 1u);
  EXPECT_EQ(ParseSize("1000B"), 1000u);
  EXPECT_EQ(ParseSize("512M"), uint64_t{512} << 20);
  EXPECT_EQ(ParseSize("1.5g"), uint64_t{3} << 29);
  EXPECT_EQ(ParseSize("2GiB"), uint64_t{2} << 30);
  EXPECT_EQ(ParseSize("3KB"), 3072u);
  EXPECT_EQ(ParseSize("1T"), uint64_t{1} << 40);
  for (const char* text : {"", "0", "-1", "G", "1X", "1GG", "1 G", "1Gi", "nan", "inf", "1e9",
                           "99999999999T", "0x10"}) {
    EXPECT_EQ(ParseSize(text), std::nullopt) << text;
  }
  EXPECT_EQ(SizeText(1023), "1023 B");
  EXPECT_EQ(SizeText(1536), "1.5 KiB");
  EXPECT_EQ(SizeText(uint64_t{5} << 40), "5.0 TiB");
}

TEST(MemoryTest, WhatDoesNotFitIsNamed) {
  RequireMemory(1 << 20, kProgramMemory + (1 << 20), "x", "y");
  try {
    RequireMemory((1 << 20) + 1, kProgramMemory + (1 << 20), "tensor 'a'", "1.0 MiB of codes");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kEnvironment);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("tensor 'a'"), HasSubstr("1.0 MiB of codes"),
                                       HasSubstr("65.0 MiB")));
    EXPECT_THAT(error.hint(), HasSubstr("--memory-limit 66M"));
  }
}

TEST(MemoryTest, OwnMemoryIsWhatWasTouched) {
  const uint64_t before = OwnMemory();
  const std::vector<char> block(uint64_t{64} << 20, 1);
  EXPECT_GE(OwnMemory(), before + (uint64_t{48} << 20));
  SetMemoryLimit(1 << 20);
  EXPECT_EQ(MemoryLimit(), uint64_t{1} << 20);
  EXPECT_THROW(CheckOwnMemory("a test"), Error);
  SetMemoryLimit(0);
  CheckOwnMemory("a test");
  EXPECT_EQ(block[5], 1);
}

}  // namespace
}  // namespace hif8
