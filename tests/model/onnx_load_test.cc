// Reading ONNX files: what is refused and how weights are found, whatever way they are stored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "lib/core/error.h"
#include "tests/model/onnx_builder.h"

namespace hif8 {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

ModelBuilder MatMulModel() {
  ModelBuilder b;
  b.Input("x", {-1, 3}).Output("y").Weight("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  b.Node("MatMul", {"x", "w"}, {"y"}, "mm");
  return b;
}

void WriteFile(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(OnnxLoad, FindsALayer) {
  TestFolder folder;
  const auto model = LoadModel(MatMulModel().Save(folder.path()));
  ASSERT_EQ(model->layers().size(), 1u);
  const Layer& layer = model->layers()[0];
  EXPECT_EQ(layer.name, "mm");
  EXPECT_EQ(layer.op, "MatMul");
  EXPECT_EQ(layer.weight, 0);
  EXPECT_EQ(layer.activation, 0);
  EXPECT_EQ(layer.unsupported, "");
  EXPECT_FALSE(layer.optional);
  EXPECT_EQ(model->weights()[0].name, "w");
  EXPECT_THAT(model->weights()[0].shape, ElementsAre(3, 2));
  EXPECT_EQ(model->weights()[0].channels.channels, 2u);
  EXPECT_EQ(model->weights()[0].channels.outer, 3u);
  EXPECT_EQ(model->activations()[0].name, "x");
  EXPECT_THAT(WeightValues(*model, 0), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(model->parameter_count(), 6u);
  EXPECT_EQ(model->kind(), "onnx");
  ASSERT_EQ(model->inputs().size(), 1u);
  EXPECT_THAT(model->inputs()[0].shape, ElementsAre(-1, 3));
}

TEST(OnnxLoad, RefusesWhatIsNoModel) {
  TestFolder folder;
  ExpectModelError([&] { LoadModel(folder / "none.onnx"); }, {"none.onnx", "No such file"});
  ExpectModelError([&] { LoadModel(folder.path()); }, {"regular file"});
  WriteFile(folder / "empty.onnx", "");
  ExpectModelError([&] { LoadModel(folder / "empty.onnx"); }, {"empty"});
  WriteFile(folder / "text.onnx", "This is a text file, not a model.\n");
  ExpectModelError([&] { LoadModel(folder / "text.onnx"); }, {"not an ONNX model", "text.onnx"});
  const std::string bytes = MatMulModel().model().SerializeAsString();
  for (size_t size = 1; size < bytes.size(); size += 7) {
    WriteFile(folder / "cut.onnx", bytes.substr(0, size));
    ExpectModelError([&] { LoadModel(folder / "cut.onnx"); }, {"cut.onnx"});
  }
  WriteFile(folder / "cut.onnx", bytes.substr(0, bytes.size() - 10));
  ExpectModelError([&] { LoadModel(folder / "cut.onnx"); }, {"truncated"});
}

TEST(OnnxLoad, FlippedBytesNeverCrash) {
  TestFolder folder;
  const std::string good = MatMulModel().model().SerializeAsString();
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      WriteFile(folder / "flip.onnx", bytes);
      try {
        const auto model = LoadModel(folder / "flip.onnx");
        for (size_t w = 0; w < model->weights().size(); ++w) model->ReadWeight(static_cast<int>(w));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kModel);
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(OnnxLoad, OpsetRange) {
  TestFolder folder;
  // An engine that runs sets up to 25.
  OnnxLoadOptions options;
  options.evaluate = [](const RunnableGraph& graph) {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(graph.model));
    if (StandardOpset(model) > 25) throw ModelError("too new", "");
    return std::vector<Tensor>();
  };
  for (const int opset : {26, 1000}) {
    ModelBuilder b = MatMulModel();
    b.model().mutable_opset_import(0)->set_version(opset);
    ExpectModelError([&] { LoadModel(b.Save(folder.path()), options); },
                     {std::to_string(opset), "7 to 25"});
    // Without an engine nothing is run, and whoever runs the model is told.
    EXPECT_EQ(LoadModel(b.Save(folder.path()))->opset(), opset);
  }
  for (const int opset : {9, 11, 13, 17, 21, 23, 24, 25}) {
    ModelBuilder b = MatMulModel();
    b.model().mutable_opset_import(0)->set_version(opset);
    EXPECT_EQ(LoadModel(b.Save(folder.path()), options)->opset(), opset);
  }
  ModelBuilder none = MatMulModel();
  none.model().clear_opset_import();
  ExpectModelError([&] { LoadModel(none.Save(folder.path())); }, {"no version"});
}

TEST(OnnxLoad, InvalidGraphsAreRefused) {
  TestFolder folder;
  ModelBuilder undefined = MatMulModel();
  undefined.Node("Relu", {"nowhere"}, {"z"}, "r");
  ExpectModelError([&] { LoadModel(undefined.Save(folder.path())); }, {"nowhere", "'r'"});
  ModelBuilder twice = MatMulModel();
  twice.Node("Relu", {"x"}, {"y"});
  ExpectModelError([&] { LoadModel(twice.Save(folder.path())); }, {"'y' is computed twice"});
  ModelBuilder output = MatMulModel();
  output.Output("missing");
  ExpectModelError([&] { LoadModel(output.Save(folder.path())); }, {"missing"});
  ModelBuilder shape = MatMulModel();
  shape.tensor("w")->set_dims(0, -3);
  ExpectModelError([&] { LoadModel(shape.Save(folder.path())); }, {"impossible shape", "w"});
  ModelBuilder huge = MatMulModel();
  huge.tensor("w")->set_dims(0, int64_t{1} << 62);
  ExpectModelError([&] { LoadModel(huge.Save(folder.path())); }, {"impossible shape", "w"});
  ModelBuilder small = MatMulModel();
  small.tensor("w")->set_dims(0, 4);
  ExpectModelError([&] { LoadModel(small.Save(folder.path())); }, {"24 bytes", "32", "w"});
}

TEST(OnnxLoad, EveryStorageKindGivesTheSameWeight) {
  TestFolder folder;
  const std::vector<float> values = {1, -2, 3.5, -0.25, 0, 64};
  std::vector<std::string> hashes;
  const auto check = [&](ModelBuilder& b, DType dtype, const OnnxLoadOptions& options = {}) {
    const auto model = LoadModel(b.Save(folder.path()), options);
    EXPECT_EQ(model->weights()[0].dtype, dtype);
    EXPECT_THAT(WeightValues(*model, 0), ElementsAreArray(values));
    EXPECT_EQ(model->parameter_count(), 6u);
    if (dtype == DType::kF32) hashes.push_back(model->ComputeFingerprint().hash);
  };
  const auto start = [&] {
    ModelBuilder b = MatMulModel();
    b.tensor("w")->set_raw_data(values.data(), 24);
    return b;
  };
  ModelBuilder raw = start();
  check(raw, DType::kF32);
  check(raw, DType::kF32, {.map_from_bytes = 1});
  ModelBuilder field = start();
  field.tensor("w")->clear_raw_data();
  for (const float v : values) field.tensor("w")->add_float_data(v);
  check(field, DType::kF32);
  ModelBuilder external = start();
  MoveToFile(external.tensor("w"), folder / "w.bin", "w.bin");
  check(external, DType::kF32);
  EXPECT_THAT(LoadModel(folder / "model.onnx")->ComputeFingerprint().files, HasSubstr("w.bin"));
  ModelBuilder constant;
  constant.Input("x", {-1, 3}).Output("y").Constant("w", {3, 2}, values);
  constant.Node("MatMul", {"x", "w"}, {"y"}, "mm");
  check(constant, DType::kF32);
  for (const std::string& hash : hashes) EXPECT_EQ(hash, hashes[0]);
  EXPECT_EQ(hashes[0].size(), 32u);

  ModelBuilder wide = start();
  wide.tensor("w")->clear_raw_data();
  wide.tensor("w")->set_data_type(onnx::TensorProto::DOUBLE);
  for (const float v : values) wide.tensor("w")->add_double_data(v);
  check(wide, DType::kF64);
  ModelBuilder half = start();
  half.tensor("w")->clear_raw_data();
  half.tensor("w")->set_data_type(onnx::TensorProto::FLOAT16);
  for (const int bits : {0x3C00, 0xC000, 0x4300, 0xB400, 0x0000, 0x5400}) {
    half.tensor("w")->add_int32_data(bits);
  }
  check(half, DType::kF16);
  ModelBuilder brain = start();
  brain.tensor("w")->clear_raw_data();
  brain.tensor("w")->set_data_type(onnx::TensorProto::BFLOAT16);
  for (const int bits : {0x3F80, 0xC000, 0x4060, 0xBE80, 0x0000, 0x4280}) {
    brain.tensor("w")->add_int32_data(bits);
  }
  check(brain, DType::kBF16);
}

TEST(OnnxLoad, ConstantNodesWithPlainNumbers) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("x", {-1, 3}).Output("y");
  auto* attribute = b.Node("Constant", {}, {"flat"})->add_attribute();
  attribute->set_name("value_floats");
  attribute->set_type(onnx::AttributeProto::FLOATS);
  for (const float v : {1, 2, 3, 4, 5, 6}) attribute->add_floats(v);
  b.Ints("shape", {2}, {3, 2});
  b.Node("Reshape", {"flat", "shape"}, {"w"});
  b.Node("MatMul", {"x", "w"}, {"y"}, "mm");
  const auto model = LoadModel(b.Save(folder.path()));
  EXPECT_THAT(WeightValues(*model, FindLayer(*model, "mm").weight), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(OnnxLoad, WeightsListedAsInputsAreNone) {
  TestFolder folder;
  ModelBuilder b(9, 3);
  b.Input("w", {3, 2}).Input("x", {-1, 3}).Output("y");
  b.Weight("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  b.Node("MatMul", {"x", "w"}, {"y"}, "mm");
  const auto model = LoadModel(b.Save(folder.path()));
  ASSERT_EQ(model->inputs().size(), 1u);
  EXPECT_EQ(model->inputs()[0].name, "x");
  EXPECT_EQ(FindLayer(*model, "mm").weight, 0);
}

TEST(OnnxLoad, FingerprintFollowsTheContents) {
  TestFolder folder;
  ModelBuilder b = MatMulModel();
  const auto first = LoadModel(b.Save(folder.path(), "a.onnx"))->ComputeFingerprint();
  const auto copy = LoadModel(b.Save(folder.path(), "b.onnx"))->ComputeFingerprint();
  EXPECT_EQ(first, copy);
  EXPECT_THAT(first.files, HasSubstr("a.onnx"));
  (*b.tensor("w")->mutable_raw_data())[0] ^= 1;
  EXPECT_FALSE(LoadModel(b.Save(folder.path(), "c.onnx"))->ComputeFingerprint() == first);
}

ModelBuilder ExternalModel(const TestFolder& folder, const std::string& location,
                           const std::filesystem::path& file) {
  ModelBuilder b = MatMulModel();
  std::filesystem::create_directories(file.parent_path());
  MoveToFile(b.tensor("w"), file, location);
  b.Save(folder.path());
  return b;
}

TEST(OnnxExternalData, LocationsOutsideAreRefused) {
  TestFolder folder, other;
  const auto expect = [&](const std::string& location, const std::filesystem::path& file) {
    ExternalModel(folder, location, file);
    ExpectModelError([&] { LoadModel(folder / "model.onnx"); }, {"folder", "w"});
  };
  expect("../w.bin", folder.path().parent_path() / "w.bin");
  std::filesystem::remove(folder.path().parent_path() / "w.bin");
  expect("sub/../../w.bin", folder / "w.bin");
  expect((other / "w.bin").string(), other / "w.bin");
  std::filesystem::create_symlink(other / "w.bin", folder / "link.bin");
  expect("link.bin", other / "w.bin");
  std::filesystem::create_directory_symlink(other.path(), folder / "dir");
  expect("dir/w.bin", other / "w.bin");
  ExternalModel(folder, "absent.bin", other / "absent.bin");
  ExpectModelError([&] { LoadModel(folder / "model.onnx"); }, {"'absent.bin' was not found", "w"});
}

TEST(OnnxExternalData, SubfoldersAreFine) {
  TestFolder folder;
  ExternalModel(folder, "data/w.bin", folder / "data/w.bin");
  EXPECT_THAT(WeightValues(*LoadModel(folder / "model.onnx"), 0), ElementsAre(1, 2, 3, 4, 5, 6));
  ExternalModel(folder, "./data/../v.bin", folder / "v.bin");
  EXPECT_THAT(WeightValues(*LoadModel(folder / "model.onnx"), 0), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(OnnxExternalData, ModelAndDataAsLinksIntoOneStore) {
  TestFolder store, view;
  ModelBuilder b = MatMulModel();
  MoveToFile(b.tensor("w"), store / "0002", "model.onnx.data");
  b.Save(store.path(), "0001");
  std::filesystem::create_symlink(store / "0001", view / "model.onnx");
  std::filesystem::create_symlink(store / "0002", view / "model.onnx.data");
  EXPECT_THAT(WeightValues(*LoadModel(view / "model.onnx"), 0), ElementsAre(1, 2, 3, 4, 5, 6));
  // Only the model is a link: its data lies beside the real file.
  TestFolder third;
  std::filesystem::create_symlink(store / "0001", third / "model.onnx");
  std::filesystem::copy_file(store / "0002", store / "model.onnx.data");
  EXPECT_THAT(WeightValues(*LoadModel(third / "model.onnx"), 0), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(OnnxExternalData, OffsetAndLengthAreChecked) {
  TestFolder folder;
  const auto expect = [&](const std::string& key, const std::string& value,
                          const std::string& message) {
    std::filesystem::remove(folder / "w.bin");
    ModelBuilder b = ExternalModel(folder, "w.bin", folder / "w.bin");
    for (auto& entry : *b.tensor("w")->mutable_external_data()) {
      if (entry.key() == key) entry.set_value(value);
    }
    b.Save(folder.path());
    ExpectModelError([&] { LoadModel(folder / "model.onnx"); }, {message, "w"});
  };
  expect("offset", "1", "24 bytes");
  expect("offset", "18446744073709551615", "24 bytes");
  expect("offset", "-4", "not a number");
  expect("length", "20", "20 bytes");
  expect("length", "28", "28 bytes");
  expect("length", "x", "not a number");
  expect("location", "", "location is missing");
}

}  // namespace
}  // namespace hif8
