// Headers here are written out as NumPy writes them (NEP 1), byte for byte.
#include "lib/core/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "lib/core/error.h"

namespace hif8 {
namespace {

std::string Npy(const std::string& dictionary, const std::string& data, int version = 1) {
  std::string file = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  std::string header = dictionary;
  const size_t field = version == 1 ? 2 : 4;
  while ((8 + field + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  for (size_t i = 0; i < field; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + data;
}

std::string Dictionary(const std::string& descr, const std::string& order,
                       const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

Tensor Parse(const std::string& file) {
  auto owner = std::make_shared<std::string>(file);
  return ParseNpy(std::as_bytes(std::span(owner->data(), owner->size())), owner, "x.npy");
}

void ExpectRefused(const std::string& file, const std::string& fragment) {
  try {
    Parse(file);
    ADD_FAILURE() << "accepted, expected an error with: " << fragment;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel);
    EXPECT_EQ(error.where(), "x.npy");
    EXPECT_NE(error.message().find(fragment), std::string::npos) << error.message();
  }
}

TEST(Npy, ReadsWhatNumpyWrites) {
  const std::string data("\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5\0\0\0\6\0\0\0", 24);
  for (int version = 1; version <= 3; ++version) {
    const Tensor tensor = Parse(Npy(Dictionary("<i4", "False", "(2, 3)"), data, version));
    EXPECT_EQ(tensor.view.dtype, DType::kI32);
    EXPECT_EQ(tensor.view.shape, (Shape{2, 3}));
    EXPECT_EQ(std::memcmp(tensor.view.data, data.data(), data.size()), 0);
  }
}

TEST(Npy, EveryElementType) {
  const std::pair<const char*, DType> types[] = {
      {"|b1", DType::kBool}, {"|u1", DType::kU8},  {"|i1", DType::kI8},  {"<u2", DType::kU16},
      {"<i2", DType::kI16},  {"<f2", DType::kF16}, {"<u4", DType::kU32}, {"<i4", DType::kI32},
      {"<f4", DType::kF32},  {"<u8", DType::kU64}, {"<i8", DType::kI64}, {"<f8", DType::kF64}};
  for (const auto& [descr, dtype] : types) {
    const Tensor tensor =
        Parse(Npy(Dictionary(descr, "False", "(1,)"), std::string(DTypeSize(dtype), '\0')));
    EXPECT_EQ(tensor.view.dtype, dtype) << descr;
    EXPECT_EQ(tensor.view.shape, Shape{1});
  }
}

TEST(Npy, OtherSpellings) {
  EXPECT_EQ(
      Parse(Npy("{\"shape\":(2,),\"descr\":\"<u2\",\"fortran_order\":False}", "abcd")).view.shape,
      Shape{2});
  EXPECT_EQ(Parse(Npy(Dictionary("<u2", "False", "(2L, 1L)"), "abcd")).view.shape, (Shape{2, 1}));
  EXPECT_EQ(Parse(Npy(Dictionary("<u2", "False", "()"), "ab")).view.shape, Shape{});
  EXPECT_EQ(Parse(Npy(Dictionary("<u2", "False", "(0, 7)"), "")).view.size(), 0U);
  // A vector is the same in both orders.
  EXPECT_EQ(Parse(Npy(Dictionary("<u2", "True", "(1, 2)"), "abcd")).view.shape, (Shape{1, 2}));
}

TEST(Npy, OtherOrders) {
  const auto text = [](const Tensor& tensor) {
    return std::string(reinterpret_cast<const char*>(tensor.view.data), tensor.view.bytes());
  };
  EXPECT_EQ(text(Parse(Npy(Dictionary(">i4", "False", "(2,)"), "abcdefgh"))), "dcbahgfe");
  EXPECT_EQ(text(Parse(Npy(Dictionary("|u1", "True", "(2, 3)"), "abcdef"))), "acebdf");
  EXPECT_EQ(text(Parse(Npy(Dictionary(">u2", "True", "(2, 1, 2)"), "abcdefgh"))), "bafedchg");
  EXPECT_EQ(Parse(Npy(Dictionary(">u2", "True", "(2, 0, 2)"), "")).view.size(), 0U);
}

TEST(Npy, RefusesWhatItCannotRead) {
  ExpectRefused(Npy(Dictionary("<c8", "False", "(1,)"), "abcdefgh"), "'<c8'");
  ExpectRefused(Npy(Dictionary("|O", "False", "(1,)"), "abcdefgh"), "'|O'");
  ExpectRefused(Npy(Dictionary("", "False", "(1,)"), ""), "found ''");
  ExpectRefused(Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "abcd"),
                "structures");
}

TEST(Npy, RefusesDamage) {
  const std::string good = Npy(Dictionary("<u2", "False", "(2,)"), "abcd");
  for (size_t n = 0; n < good.size(); ++n) EXPECT_THROW(Parse(good.substr(0, n)), Error) << n;
  ExpectRefused(good + "x", "the file has 5");
  ExpectRefused(good.substr(0, good.size() - 1), "the file has 3");
  ExpectRefused("PK\3\4 something else", "does not begin as one");
  ExpectRefused(Npy(Dictionary("<u2", "False", "(2,)"), "abcd", 4), "found 4");
  ExpectRefused(Npy(Dictionary("<u2", "False", "(-2,)"), "abcd"), "no number");
  ExpectRefused(Npy(Dictionary("<u2", "Maybe", "(2,)"), "abcd"), "neither True nor False");
  ExpectRefused(Npy(Dictionary("<u2", "False", "(2,"), "abcd"), "found");
  ExpectRefused(Npy("{'descr': '<u2'}", "abcd"), "without one of");
  ExpectRefused(Npy("{'descr': '<u2', 'descr': '<u2'}", "abcd"), "repeated key 'descr'");
  ExpectRefused(Npy(Dictionary("<u2", "False", "(2,)") + "x", "abcd"), "after the dictionary");
  ExpectRefused(Npy(Dictionary("<f4", "False", "(4611686018427387904, 4)"), ""), "2^63");
  ExpectRefused(Npy(Dictionary("<f4", "False", "(0, 4611686018427387904, 4)"), ""), "2^63");
  ExpectRefused(Npy(Dictionary("<f4", "False", "(99999999999999999999,)"), ""), "2^63");
}

TEST(Npy, MapsAFile) {
  const std::filesystem::path path = ::testing::TempDir() + "npy_test_maps_a_file.npy";
  std::ofstream(path, std::ios::binary) << Npy(Dictionary("<u2", "False", "(2,)"), "abcd");
  const Tensor tensor = ReadNpy(path);
  std::filesystem::remove(path);
  EXPECT_EQ(std::memcmp(tensor.view.data, "abcd", 4), 0);  // the mapping outlives the name
  EXPECT_THROW(ReadNpy(path), Error);
}

}  // namespace
}  // namespace hif8
