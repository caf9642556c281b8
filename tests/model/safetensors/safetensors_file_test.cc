#include "lib/model/safetensors/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <csignal>
#include <random>

#include "lib/core/error.h"
#include "lib/core/output_file.h"
#include "tests/model/safetensors/raw_file.h"
#include "tests/paths.h"

namespace hif8 {
namespace {

using ::testing::HasSubstr;

class SafetensorsFileTest : public ::testing::Test {
 protected:
  std::filesystem::path Put(const std::string& bytes) {
    const auto path = folder_.path() / "x.safetensors";
    test::WriteBytes(path, bytes);
    return path;
  }

  // The message of the error that opening gives; empty when there is none.
  std::string ErrorOf(const std::string& bytes) {
    try {
      SafetensorsFile::Open(Put(bytes));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      EXPECT_THAT(error.where(), HasSubstr("x.safetensors"));
      return error.message();
    }
    return "";
  }

  test::TemporaryFolder folder_;
};

TEST_F(SafetensorsFileTest, ReadsTensorsInHeaderOrderAtAnyAlignment) {
  // 'b' comes first in the header but second in the data; its floats begin at an odd offset.
  const std::string header = R"({"b":{"dtype":"F32","shape":[1,2],"data_offsets":[3,11]},)"
                             R"("__metadata__":{"format":"pt","a":"1"},)"
                             R"("a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  const std::string data("\x01\x02\x03\x00\x00\x80\x3F\x00\x00\x00\xC0", 11);
  const auto file = SafetensorsFile::Open(Put(test::RawSafetensors(header, data)));
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].name, "b");
  EXPECT_EQ(file->tensors()[0].shape, (Shape{1, 2}));
  EXPECT_EQ(file->metadata(), (SafetensorsMetadata{{"format", "pt"}, {"a", "1"}}));
  std::vector<float> buffer;
  const Tensor b = file->Read(*file->Find("b"));
  const auto floats = AsFloats(b.view, &buffer);
  EXPECT_EQ(floats[0], 1.0f);
  EXPECT_EQ(floats[1], -2.0f);
  EXPECT_EQ(file->Bytes(*file->Find("a"))[2], std::byte{3});
  EXPECT_EQ(file->Find("c"), nullptr);
}

TEST_F(SafetensorsFileTest, AcceptsEmptyMetadataNoTensorsEmptyTensorsAndPadding) {
  EXPECT_EQ(ErrorOf(test::RawSafetensors(R"({"__metadata__":{}})", "")), "");
  EXPECT_EQ(ErrorOf(test::RawSafetensors("{}   ", "")), "");
  EXPECT_EQ(
      ErrorOf(test::RawSafetensors(R"({"e":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},)"
                                   R"("s":{"dtype":"F16","shape":[],"data_offsets":[0,2]}})",
                                   "ab")),
      "");
}

std::string OneTensor(const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
  return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

TEST_F(SafetensorsFileTest, OneClearErrorForEveryBrokenRule) {
  const std::string d8(8, '\0');
  const struct {
    std::string bytes;
    std::vector<std::string> parts;
  } cases[] = {
      {"abc", {"at least 8 bytes", "found 3"}},
      {test::LengthPrefix(~uint64_t{0}) + "{}", {"header length", "18446744073709551615"}},
      {test::LengthPrefix(100'000'001) + "{}", {"at most 100000000"}},
      {test::LengthPrefix(50) + "{}", {"past the end"}},
      {test::RawSafetensors("", ""), {"begin with '{'"}},
      {test::RawSafetensors("[]", ""), {"begin with '{'"}},
      {test::RawSafetensors("{\"a\":", ""), {"no JSON", "offset"}},
      {test::RawSafetensors("{} x", ""), {"no JSON", "offset"}},
      {test::RawSafetensors(std::string("{\"\xFF\":{}}"), ""), {"no JSON"}},
      {test::RawSafetensors(OneTensor("F32", "[3]", "[0,8]"), d8),
       {"'w'", "offset 0", "[3] of F32", "8 bytes"}},
      {test::RawSafetensors(OneTensor("F32", "[2]", "[8,16]"), d8),
       {"'w'", "offset 8", "not inside", "8 bytes"}},
      {test::RawSafetensors(OneTensor("F32", "[2]", "[8,0]"), d8), {"'w'", "not inside"}},
      {test::RawSafetensors(OneTensor("F32", "[1]", "[4,8]"), d8), {"'w'", "gap", "at 0"}},
      {test::RawSafetensors(OneTensor("F32", "[1]", "[0,4]"), d8), {"end at data offset 4", "8"}},
      {test::RawSafetensors(OneTensor("F32", "[1099511627776,1099511627776]", "[0,8]"), d8),
       {"'w'", "does not match"}},
      {test::RawSafetensors(OneTensor("F32", "[1099511627776]", "[0,8]"), d8),
       {"'w'", "does not match"}},
      {test::RawSafetensors(OneTensor("F32", "[4611686018427387905]", "[0,4]"), "abcd"),
       {"'w'", "does not match"}},
      {test::RawSafetensors(OneTensor("F32", "[9223372036854775807,0]", "[0,0]"), ""),
       {"'w'", "does not match"}},
      {test::RawSafetensors(OneTensor("F32", "[0,4294967296,4294967296]", "[0,0]"), ""),
       {"'w'", "does not match"}},
      {test::RawSafetensors(OneTensor("F4", "[2]", "[0,8]"), d8),
       {"'w'", "shape [2] of F4 does not match"}},
      {test::RawSafetensors(OneTensor("F32", "[-2]", "[0,8]"), d8), {"'w'", "-2"}},
      {test::RawSafetensors(OneTensor("F32", "[2.0]", "[0,8]"), d8), {"'w'", "2.0"}},
      {test::RawSafetensors(OneTensor("F32", "[99999999999999999999]", "[0,8]"), d8), {"'w'"}},
      {test::RawSafetensors(OneTensor("F32", "[2]", "[0,4,8]"), d8), {"'w'", "3 numbers"}},
      {test::RawSafetensors(OneTensor("F32", "[[2]]", "[0,8]"), d8), {"'w'", "an array"}},
      {test::RawSafetensors(OneTensor("F32", "null", "[0,8]"), d8), {"'w'", "null"}},
      {test::RawSafetensors(R"({"w":{"dtype":"F32","shape":[2]}})", d8), {"'w'", "data_offsets"}},
      {test::RawSafetensors(R"({"w":3})", ""), {"'w'", "3"}},
      {test::RawSafetensors(R"({"__metadata__":{"a":1}})", ""), {"__metadata__", "1"}},
      {test::RawSafetensors(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                            R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                            d8),
       {"'b'", "overlaps", "offset 4"}},
      {test::RawSafetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                            R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                            d8),
       {"'a'", "twice"}},
  };
  for (const auto& c : cases) {
    const std::string message = ErrorOf(c.bytes);
    EXPECT_NE(message, "") << c.bytes.substr(8);
    for (const std::string& part : c.parts) EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST_F(SafetensorsFileTest, DeepNestingAndLongShapesAreRefusedQuickly) {
  EXPECT_NE(ErrorOf(test::RawSafetensors("{\"a\":" + std::string(1 << 20, '['), "")), "");
  EXPECT_NE(ErrorOf(test::RawSafetensors("{\"a\":{\"b\":" + std::string(1 << 20, '{'), "")), "");
  std::string ones = "[1";
  for (int i = 0; i < 100'000; ++i) ones += ",1";
  EXPECT_THAT(ErrorOf(test::RawSafetensors(OneTensor("U8", ones + "]", "[0,1]"), "a")),
              HasSubstr("64 dimensions"));
}

TEST_F(SafetensorsFileTest, TruncatedOrCorruptedFilesGiveErrorsOnly) {
  const std::string good =
      test::ReadBytes(std::string(HIF8_TEST_DATA_DIR) + "/models/random-qwen2/model.safetensors");
  ASSERT_GT(good.size(), 10'000u);
  EXPECT_EQ(ErrorOf(good), "");
  for (size_t n = 0; n < good.size(); n = n < 64 ? n + 1 : n * 5 / 4) {
    EXPECT_NE(ErrorOf(good.substr(0, n)), "") << "cut at " << n;
  }
  EXPECT_NE(ErrorOf(good + "x"), "");
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    for (unsigned k = 0; k <= random() % 3; ++k) {
      bad[random() % 4224] = static_cast<char>(random());
    }
    ErrorOf(bad);  // an error of ours or none, never a crash
  }
}

TEST_F(SafetensorsFileTest, WriterGivesTheFormat) {
  const auto path = folder_.path() / "out.safetensors";
  const SafetensorsMetadata metadata = {{"format", "pt"}};
  SafetensorsWriter writer(
      path, {{"a\"b", DType::kU8, {3}}, {"e", DType::kF32, {0, 2}}, {"s", DType::kF16, {}}},
      &metadata);
  const std::string data = "abcde";
  const auto bytes = std::as_bytes(std::span(data));
  writer.Write(0, bytes.subspan(0, 2));
  writer.Write(0, bytes.subspan(2, 1));
  EXPECT_THROW(writer.Write(0, bytes), Error);
  writer.Write(2, bytes.subspan(3, 2));
  writer.Finish();
  std::string header =
      R"({"__metadata__":{"format":"pt"},"a\"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
      R"("e":{"dtype":"F32","shape":[0,2],"data_offsets":[3,3]},)"
      R"("s":{"dtype":"F16","shape":[],"data_offsets":[3,5]}})";
  while (header.size() % 8 != 0) header += ' ';
  EXPECT_EQ(test::ReadBytes(path), test::RawSafetensors(header, data));
}

// A limit of file sizes stands in for a full disk: to the writer it is one more failing write.
TEST_F(SafetensorsFileTest, WriterReportsWhatCannotBeWritten) {
  const auto path = folder_.path() / "x.safetensors";
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit few{16, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &few), 0);
  std::string message;
  std::string hint;
  ErrorCode code = ErrorCode::kBug;
  try {
    SafetensorsWriter writer(path, {{"a", DType::kU8, {3}}}, nullptr);
  } catch (const Error& error) {
    code = error.code();
    message = error.message();
    hint = error.hint();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(code, ErrorCode::kEnvironment);
  EXPECT_THAT(message, HasSubstr("File too large"));
  EXPECT_THAT(hint, HasSubstr("can be written"));
  EXPECT_THAT(WriteError(path, ENOSPC).hint(), HasSubstr("free some space"));
}

TEST_F(SafetensorsFileTest, WriterLeavesADeviceAlone) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  EXPECT_THROW(SafetensorsWriter("/dev/full", {{"a", DType::kU8, {3}}}, nullptr), Error);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace hif8
