// Files that are broken, and images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "lib/core/error.h"
#include "lib/core/memory.h"
#include "lib/runtime/dataset.h"
#include "tests/paths.h"
#include "tests/runtime/data_files.h"
#include "tests/runtime/test_graph.h"

namespace hif8 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const GraphValue kX{"x", DType::kF32, true, {-1, 4}, {"", ""}};

std::unique_ptr<Dataset> Open(const std::filesystem::path& path, const GraphValue& input = kX,
                              const ImageOptions& image = {}) {
  DataOptions options;
  options.source = path.string();
  options.image = image;
  return OpenDataset(options, {&input, 1}, NullLog());
}

// Opens and reads everything; the error must be one that a user can act on.
void ExpectRefused(const std::filesystem::path& path, const std::string& part,
                   const GraphValue& input = kX) {
  try {
    const auto data = Open(path, input);
    for (size_t i = 0; i < data->runs(); ++i) data->Read(i);
    FAIL() << "nothing was refused: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel) << error.message();
    EXPECT_THAT(error.message(), HasSubstr(part));
    EXPECT_THAT(error.where(), HasSubstr(path.filename().string()));
  }
}

TEST(DataFiles, BrokenNpy) {
  const TempFolder dir;
  const std::string good = NpyCount({2, 4});
  WriteBytes(dir / "a.npy", good.substr(0, good.size() - 1));
  ExpectRefused(dir / "a.npy", "32 bytes");
  WriteBytes(dir / "b.npy", good.substr(0, 20));
  ExpectRefused(dir / "b.npy", "does not fit");
  WriteBytes(dir / "c.npy", "");
  ExpectRefused(dir / "c.npy", "");
}

TEST(DataFiles, BrokenNpz) {
  const TempFolder dir;
  WriteBytes(dir / "a.npz", "PK but not really");
  ExpectRefused(dir / "a.npz", ".npz archive");
  WriteBytes(dir / "b.npz", "");
  ExpectRefused(dir / "b.npz", "");
  WriteZip(dir / "c.npz", {{"x.npy", "no array"}});
  ExpectRefused(dir / "c.npz", "");
  WriteZip(dir / "d.npz", {{"x.npy", NpyCount({2, 4}).substr(0, 150)}});
  ExpectRefused(dir / "d.npz", "32 bytes");
  WriteZip(dir / "e.npz", {{"notes.txt", "hello"}});
  ExpectRefused(dir / "e.npz", "no arrays");
}

TEST(DataFiles, DamagedNpzContentIsFoundByItsChecksum) {
  const TempFolder dir;
  WriteZip(dir / "a.npz", {{"x.npy", NpyCount({2, 4})}});
  std::string bytes = ReadBytes(dir / "a.npz");
  const size_t at = bytes.find(Bytes<float>({7}));  // the last element
  ASSERT_NE(at, std::string::npos);
  bytes[at] = '\x55';
  WriteBytes(dir / "a.npz", bytes);
  ExpectRefused(dir / "a.npz", "cannot be read");
}

TEST(DataFiles, DamagedDeflateStreams) {
  const TempFolder dir;
  std::vector<float> values(4096);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  WriteZip(dir / "good.npz", {{"x.npy", NpyFloats({1024, 4}, values)}}, true);
  const std::string good = ReadBytes(dir / "good.npz");
  EXPECT_EQ(Open(dir / "good.npz")->runs(), 1024u);
  int refused = 0;
  for (size_t at = 40; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x5a);
    WriteBytes(dir / "bad.npz", bad);
    try {
      const auto data = Open(dir / "bad.npz");
      for (size_t i = 0; i < data->runs(); ++i) data->Read(i);
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.code(), ErrorCode::kModel) << at;
    }
  }
  EXPECT_GT(refused, 50) << "damage was not noticed";
  for (size_t size = 0; size < good.size(); size += 211) {
    WriteBytes(dir / "cut.npz", good.substr(0, size));
    ExpectRefused(dir / "cut.npz", "");
  }
}

TEST(DataFiles, AnEntryThatClaimsTooMuchIsRefused) {
  const TempFolder dir;
  WriteZip(dir / "a.npz", {{"x.npy", NpyCount({64, 4})}}, true);
  std::string bytes = ReadBytes(dir / "a.npz");
  const size_t directory = bytes.find("PK\x01\x02");
  ASSERT_NE(directory, std::string::npos);
  // The uncompressed size in the archive's directory.
  for (size_t i = 0; i < 4; ++i) bytes[directory + 24 + i] = '\x7f';
  WriteBytes(dir / "a.npz", bytes);
  ExpectRefused(dir / "a.npz", "");
}

std::string TensorFile(const std::string& name, const Shape& shape,
                       const std::vector<float>& values, bool raw) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t d : shape) tensor.add_dims(d);
  if (raw) tensor.set_raw_data(Bytes(values));
  if (!raw) {
    for (const float v : values) tensor.add_float_data(v);
  }
  return tensor.SerializeAsString();
}

TEST(DataFiles, OnnxTestDataSets) {
  const TempFolder dir;
  WriteBytes(dir / "model.onnx", "not looked at");
  for (const int set : {0, 2, 10}) {
    const std::string folder = "test_data_set_" + std::to_string(set) + "/";
    const auto v = static_cast<float>(set);
    WriteBytes(dir / (folder + "input_0.pb"), TensorFile("a", {1, 2}, {v, v + 0.5f}, true));
    WriteBytes(dir / (folder + "input_1.pb"), TensorFile("b", {1, 1}, {-v}, false));
    WriteBytes(dir / (folder + "output_0.pb"), "not looked at");
  }
  DataOptions options;
  options.source = dir.string();
  // In the model's order, or by name.
  std::vector<GraphValue> inputs = {{"b", DType::kF32, true, {1, -1}, {"", ""}},
                                    {"a", DType::kF32, true, {1, 2}, {"", ""}}};
  const auto data = OpenDataset(options, inputs, NullLog());
  ASSERT_EQ(data->runs(), 3u);
  EXPECT_THAT(Floats(data->Read(1).inputs.at("a").view), ElementsAre(2, 2.5f));
  EXPECT_THAT(Floats(data->Read(2).inputs.at("b").view), ElementsAre(-10));
  inputs[0].name = "other";
  inputs[0].shape = {1, 2};
  inputs[1].name = "names";
  inputs[1].shape = {1, 1};
  EXPECT_THAT(Floats(OpenDataset(options, inputs, NullLog())->Read(1).inputs.at("other").view),
              ElementsAre(2, 2.5f))
      << "by position";
  options.source = (dir / "test_data_set_2").string();
  EXPECT_EQ(OpenDataset(options, inputs, NullLog())->runs(), 1u);
}

TEST(DataFiles, BrokenOnnxTestData) {
  const TempFolder dir;
  const std::string good = TensorFile("x", {1, 4}, {1, 2, 3, 4}, true);
  WriteBytes(dir / "input_0.pb", good);
  EXPECT_EQ(Open(dir / "input_0.pb")->runs(), 1u);
  WriteBytes(dir / "input_0.pb", good.substr(0, good.size() - 3));
  ExpectRefused(dir / "input_0.pb", "");
  WriteBytes(dir / "input_0.pb", "");
  ExpectRefused(dir / "input_0.pb", "");
  WriteBytes(dir / "input_0.pb", TensorFile("x", {1, 4}, {1, 2, 3}, true));
  ExpectRefused(dir / "input_0.pb", "12 bytes");
  WriteBytes(dir / "input_0.pb", TensorFile("x", {int64_t{1} << 40, int64_t{1} << 40}, {1}, true));
  ExpectRefused(dir / "input_0.pb", "");
  WriteBytes(dir / "input_0.pb", TensorFile("x", {-1, -4}, {1, 2, 3, 4}, true));
  ExpectRefused(dir / "input_0.pb", "");
}

TEST(DataFiles, BrokenSafetensors) {
  const TempFolder dir;
  WriteBytes(dir / "a.safetensors", std::string(8, '\xff'));
  ExpectRefused(dir / "a.safetensors", "");
}

TEST(DataFiles, BrokenImages) {
  const TempFolder dir;
  const GraphValue image{"x", DType::kF32, true, {1, 3, -1, -1}, {}};
  WriteBytes(dir / "a.png", "not an image");
  ExpectRefused(dir / "a.png", "cannot be decoded", image);
  WriteImage(dir / "b.png", 16, 16, 3, std::vector<uint8_t>(768, 9));
  const std::string good = ReadBytes(dir / "b.png");
  WriteBytes(dir / "b.png", good.substr(0, 50));
  ExpectRefused(dir / "b.png", "cannot be decoded", image);
  std::string huge = good;  // 2^24 x 2^24 pixels
  for (const size_t at : {16u, 20u}) {
    huge[at] = '\x01';
    huge[at + 1] = huge[at + 2] = huge[at + 3] = '\0';
  }
  WriteBytes(dir / "c.png", huge);
  ExpectRefused(dir / "c.png", "", image);
  WriteBytes(dir / "d.jpg", "");
  ExpectRefused(dir / "d.jpg", "", image);
}

TEST(DataFiles, ImagesThatBreakTheDecoder) {
  const std::filesystem::path faults = std::filesystem::path(HIF8_TEST_DATA_DIR) / "faults";
  const GraphValue image{"x", DType::kF32, true, {1, 3, -1, -1}, {}};
  ExpectRefused(faults / "crash7-bmp.bmp", "1 to 2^28 pixels", image);
  // 8 x 8 pixels that inflate to 16 MB: the rest is left alone.
  EXPECT_EQ(Open(faults / "inflates.png", image)->runs(), 1u);
}

TEST(DataFiles, ImagesObeyTheMemoryLimit) {
  const TempFolder dir;
  const GraphValue image{"x", DType::kF32, true, {1, 3, 8, 8}, {}};
  WriteImage(dir / "a.png", 2048, 2048, 1, std::vector<uint8_t>(2048 * 2048, 7));
  EXPECT_EQ(Open(dir / "a.png", image)->Read(0).inputs.at("x").view.shape, (Shape{1, 3, 8, 8}));
  SetMemoryLimit(uint64_t{96} << 20);  // 2048 x 2048 x 3 floats are 48 MiB, the program has 64
  try {
    Open(dir / "a.png", image)->Read(0);
    ADD_FAILURE() << "more than the limit was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kEnvironment) << error.message();
    EXPECT_THAT(error.message(), HasSubstr("2048x2048"));
  }
  SetMemoryLimit(0);
}

TEST(DataFiles, ArraysInArchivesObeyTheMemoryLimit) {
  const TempFolder dir;
  WriteZip(dir / "a.npz", {{"x.npy", NpyFloats({1, 2 << 20}, std::vector<float>(2 << 20))}}, true);
  const GraphValue wide{"x", DType::kF32, true, {-1, -1}, {"", ""}};
  EXPECT_EQ(Open(dir / "a.npz", wide)->Read(0).inputs.at("x").view.size(), size_t{2} << 20);
  SetMemoryLimit(uint64_t{68} << 20);
  EXPECT_THROW(Open(dir / "a.npz", wide)->Read(0), Error);
  SetMemoryLimit(0);
}

TEST(DataFiles, ImagesInEveryLayout) {
  const TempFolder dir;
  // Two pixels side by side, red-ish and blue-ish.
  const std::vector<uint8_t> pixels = {255, 51, 0, 0, 102, 204};
  for (const char* name : {"a.png", "a.bmp"}) {
    WriteImage(dir / name, 2, 1, 3, pixels);
    const GraphValue nchw{"x", DType::kF32, true, {-1, 3, -1, -1}, {}};
    const GraphValue nhwc{"x", DType::kF32, true, {1, 1, 2, 3}, {}};
    ImageOptions options{.size = {1, 2}};
    EXPECT_THAT(Floats(Open(dir / name, nchw, options)->Read(0).inputs.at("x").view),
                ElementsAre(1, 0, 0.2f, 0.4f, 0, 0.8f));
    options.channels = ImageChannels::kBgr;
    options.mean = {0.5f, 0.25f, 0};
    options.std = {0.5f, 1, 2};
    EXPECT_THAT(Floats(Open(dir / name, nchw, options)->Read(0).inputs.at("x").view),
                ElementsAre(-1, testing::FloatNear(0.6f, 1e-6f), testing::FloatNear(-0.05f, 1e-6f),
                            testing::FloatNear(0.15f, 1e-6f), 0.5f, 0));
    options = {.size = {1, 2}, .layout = ImageLayout::kNhwc};
    EXPECT_THAT(Floats(Open(dir / name, nhwc, options)->Read(0).inputs.at("x").view),
                ElementsAre(1, 0.2f, 0, 0, 0.4f, 0.8f));
  }
  const GraphValue bytes{"x", DType::kU8, true, {1, -1, -1, 3}, {}};
  const Tensor raw = Open(dir / "a.png", bytes, {.size = {1, 2}, .layout = ImageLayout::kNhwc})
                         ->Read(0)
                         .inputs.at("x");
  ASSERT_EQ(raw.view.dtype, DType::kU8);
  EXPECT_EQ(std::memcmp(raw.view.data, pixels.data(), 6), 0);
  const GraphValue half{"x", DType::kF16, true, {1, 3, 1, 2}, {}};
  EXPECT_EQ(Open(dir / "a.png", half)->Read(0).inputs.at("x").view.dtype, DType::kF16);
}

TEST(DataFiles, ImagesAreResizedToTheModel) {
  const TempFolder dir;
  // A horizontal ramp: shrinking by 4 averages, so each pixel is near the middle of its columns.
  std::vector<uint8_t> pixels;
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 64; ++x) pixels.push_back(static_cast<uint8_t>(x * 4));
  }
  WriteImage(dir / "a.png", 64, 16, 1, pixels);
  const GraphValue fixed{"x", DType::kF32, true, {1, 3, 4, 16}, {}};
  const Tensor tensor = Open(dir / "a.png", fixed)->Read(0).inputs.at("x");
  ASSERT_EQ(tensor.view.shape, (Shape{1, 3, 4, 16})) << "the model's size, not the default";
  const auto values = Floats(tensor.view);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto column = static_cast<double>(i % 16);
    const double expected = (column * 4 + 1.5) * 4 / 255;
    const bool edge = i % 16 == 0 || i % 16 == 15;
    EXPECT_NEAR(values[i], expected, edge ? 0.02 : 0.002) << i;
    EXPECT_GE(values[i], 0.0f);
    EXPECT_LE(values[i], 1.0f);
  }
  const GraphValue open{"x", DType::kF32, true, {-1, 1, -1, -1}, {}};
  EXPECT_EQ(Open(dir / "a.png", open, {.channels = ImageChannels::kGray})
                ->Read(0)
                .inputs.at("x")
                .view.shape,
            (Shape{1, 1, 224, 224}));
  const GraphValue unbatched{"x", DType::kF32, true, {3, 8, 8}, {}};
  EXPECT_EQ(Open(dir / "a.png", unbatched)->Read(0).inputs.at("x").view.shape, (Shape{3, 8, 8}));
}

TEST(DataFiles, AnImageLayoutThatTheModelDoesNotHave) {
  const TempFolder dir;
  WriteImage(dir / "a.png", 8, 8, 3, std::vector<uint8_t>(192, 100));
  const GraphValue nchw{"x", DType::kF32, true, {-1, 3, -1, -1}, {}};
  const GraphValue nhwc{"x", DType::kF32, true, {1, 32, 32, 3}, {}};
  ExpectRefused(dir / "a.png", "nhwc, not nchw", nhwc);
  EXPECT_THROW(Open(dir / "a.png", nchw, {.layout = ImageLayout::kNhwc}), Error);
  EXPECT_EQ(Open(dir / "a.png", nhwc, {.layout = ImageLayout::kNhwc})->runs(), 1u);
}

TEST(DataFiles, JpegAndFoldersOfImages) {
  const TempFolder dir;
  WriteImage(dir / "a.JPG", 8, 8, 3, std::vector<uint8_t>(192, 100));
  WriteImage(dir / "b.png", 4, 6, 3, std::vector<uint8_t>(72, 50));
  const GraphValue image{"x", DType::kF32, true, {2, 3, -1, -1}, {}};
  const auto data = Open(dir.string(), image, {.size = {8, 8}});
  ASSERT_EQ(data->runs(), 1u) << "a fixed batch of two images";
  const auto values = Floats(data->Read(0).inputs.at("x").view);
  EXPECT_NEAR(values[0], 100.0 / 255, 0.02);
  EXPECT_NEAR(values[200], 50.0 / 255, 1e-6);
}

}  // namespace
}  // namespace hif8
