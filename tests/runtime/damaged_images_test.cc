// Images whose headers promise what the file does not hold, or what the decoder would believe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/core/error.h"
#include "lib/runtime/dataset.h"
#include "tests/runtime/data_files.h"

namespace hif8 {
namespace {

using testing::HasSubstr;

// What reading the image says, or "" when it can be read.
std::string Problem(const std::filesystem::path& path) {
  const GraphValue input{"x", DType::kF32, true, {1, 3, 8, 8}, {"", "", "", ""}};
  DataOptions options;
  options.source = path.string();
  try {
    OpenDataset(options, {&input, 1}, NullLog())->Read(0);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel);
    EXPECT_EQ(error.where(), path.string());
    EXPECT_NE(error.hint(), "");
    return error.message();
  }
  return "";
}

std::string Jpeg(const TempFolder& dir) {
  WriteImage(dir / "good.jpg", 16, 16, 3, std::vector<uint8_t>(768, 99));
  return ReadBytes(dir / "good.jpg");
}

// Where the counts of the first Huffman table stand: behind marker, length and the table's number.
size_t FirstCounts(const std::string& jpeg) { return jpeg.find("\xff\xc4") + 5; }

TEST(DamagedImages, HuffmanTableWithTooManyCodes) {
  const TempFolder dir;
  std::string jpeg = Jpeg(dir);
  jpeg[FirstCounts(jpeg) + 14] = jpeg[FirstCounts(jpeg) + 15] = '\xff';
  WriteBytes(dir / "a.jpg", jpeg);
  EXPECT_THAT(Problem(dir / "a.jpg"), HasSubstr("Bogus Huffman table"));
  // The name does not matter, nor do bytes of filling between segments.
  jpeg.insert(2, "\xff\xff\xff");
  WriteBytes(dir / "a.png", jpeg);
  EXPECT_THAT(Problem(dir / "a.png"), HasSubstr("Bogus Huffman table"));
}

TEST(DamagedImages, HuffmanTableBeyondItsSegment) {
  const TempFolder dir;
  std::string jpeg = Jpeg(dir);
  // A segment of one byte after the start; the counts are read from what follows it.
  jpeg.insert(2, std::string("\xff\xc4\x00\x03\x00", 5) + std::string(16, '\xf0'));
  WriteBytes(dir / "a.jpg", jpeg);
  EXPECT_THAT(Problem(dir / "a.jpg"), HasSubstr("Bogus marker length"));
}

TEST(DamagedImages, HuffmanTableThatEndsWithTheFile) {
  const TempFolder dir;
  std::string jpeg = Jpeg(dir);
  // Three of sixteen counts; the decoder takes the others for 0.
  jpeg.resize(FirstCounts(jpeg) + 3);
  jpeg.replace(jpeg.size() - 3, 3, "\x01\xd5\xf8");
  WriteBytes(dir / "a.jpg", jpeg);
  EXPECT_THAT(Problem(dir / "a.jpg"), HasSubstr("Bogus Huffman table"));
}

TEST(DamagedImages, HuffmanTableAfterImageData) {
  const TempFolder dir;
  std::string jpeg = Jpeg(dir);
  const size_t end = jpeg.rfind("\xff\xd9");
  ASSERT_NE(end, std::string::npos);
  const std::string table = std::string("\xff\xc4\x00\x13\x00", 5) + std::string(16, '\x20');
  WriteBytes(dir / "a.jpg", jpeg.substr(0, end) + table + jpeg.substr(end));
  EXPECT_THAT(Problem(dir / "a.jpg"), HasSubstr("Bogus Huffman table"));
  // Behind the end of the image nothing is read.
  WriteBytes(dir / "b.jpg", jpeg + table);
  EXPECT_EQ(Problem(dir / "b.jpg"), "");
}

TEST(DamagedImages, WhatOtherSegmentsHoldIsNoTable) {
  const TempFolder dir;
  std::string jpeg = Jpeg(dir);
  const std::string profile =
      std::string("\xff\xe2\x00\x20", 4) + "\xff\xc4" + std::string(28, '\xff');
  WriteBytes(dir / "a.jpg", jpeg.insert(2, profile));
  EXPECT_EQ(Problem(dir / "a.jpg"), "");
}

TEST(DamagedImages, MorePixelsThanTheFileCanHold) {
  const TempFolder dir;
  WriteImage(dir / "a.bmp", 1, 1, 3, {1, 2, 3});
  std::string bmp = ReadBytes(dir / "a.bmp");
  EXPECT_EQ(Problem(dir / "a.bmp"), "");
  const size_t height = 22;  // of the little-endian number in the header
  bmp.replace(height, 4, std::string("\x00\x00\x40\x00", 4));
  WriteBytes(dir / "a.bmp", bmp);
  EXPECT_THAT(Problem(dir / "a.bmp"), HasSubstr("pixels end at byte 16777269, the file at 58"));
}

TEST(DamagedImages, ABitmapThatIsCutShort) {
  const TempFolder dir;
  WriteImage(dir / "a.bmp", 3, 2, 3, std::vector<uint8_t>(18, 200));
  std::string bmp = ReadBytes(dir / "a.bmp");
  // Some writers leave the padding of the last row out.
  const size_t padding = 3;
  bmp.resize(bmp.size() - padding);
  WriteBytes(dir / "a.bmp", bmp);
  EXPECT_EQ(Problem(dir / "a.bmp"), "");
  bmp.pop_back();
  WriteBytes(dir / "a.bmp", bmp);
  EXPECT_THAT(Problem(dir / "a.bmp"), HasSubstr("pixels end at byte 75, the file at 74"));
}

TEST(DamagedImages, ASideThatNoPhotoHas) {
  const TempFolder dir;
  WriteImage(dir / "a.png", 1, 65536, 1, std::vector<uint8_t>(65536));
  EXPECT_THAT(Problem(dir / "a.png"), HasSubstr("up to 65535 on a side, found one of 1x65536"));
}

}  // namespace
}  // namespace hif8
