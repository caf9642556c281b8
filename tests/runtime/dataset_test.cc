#include "lib/runtime/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "lib/core/error.h"
#include "tests/runtime/data_files.h"
#include "tests/runtime/test_graph.h"

namespace hif8 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

GraphValue Value(const std::string& name, const Shape& shape, DType dtype = DType::kF32,
                 std::vector<std::string> dim_names = {}) {
  dim_names.resize(shape.size());
  return {name, dtype, true, shape, std::move(dim_names)};
}

class DatasetTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> Open(const std::filesystem::path& path,
                                const std::vector<GraphValue>& inputs, DataOptions options = {}) {
    options.source = path.string();
    return OpenDataset(options, inputs, log_);
  }

  // Every run's input `name` as floats.
  static std::vector<std::vector<float>> All(Dataset& data, const std::string& name = "x") {
    std::vector<std::vector<float>> runs;
    for (size_t i = 0; i < data.runs(); ++i) {
      runs.push_back(Floats(data.Read(i).inputs.at(name).view));
    }
    return runs;
  }

  static Error Caught(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error";
    return BugError("");
  }

  TempFolder dir_;
  RecordingLog log_;
};

TEST_F(DatasetTest, FolderOfNpyInNaturalOrder) {
  WriteBytes(dir_ / "s10.npy", NpyFloats({1, 2}, {10, 10.5f}));
  WriteBytes(dir_ / "s2.npy", NpyFloats({1, 2}, {2, 2.5f}));
  WriteBytes(dir_ / "readme.txt", "hello");
  WriteBytes(dir_ / ".hidden.npy", "x");
  const auto data = Open(dir_.string(), {Value("x", {1, 2})});
  EXPECT_EQ(data->samples(), 2u);
  EXPECT_FALSE(data->synthetic());
  EXPECT_THAT(All(*data), ElementsAre(ElementsAre(2, 2.5f), ElementsAre(10, 10.5f)));
  EXPECT_THAT(log_.info, ElementsAre(HasSubstr("readme.txt")));
  EXPECT_THAT(data->Read(1).where, HasSubstr("s10.npy"));
}

TEST_F(DatasetTest, FixedBatchSplitsTheLeadingDimension) {
  WriteBytes(dir_ / "x.npy", NpyCount({4, 3}));
  const auto one = Open(dir_ / "x.npy", {Value("x", {1, 3})});
  EXPECT_EQ(one->runs(), 4u);
  EXPECT_EQ(one->samples(), 4u);
  EXPECT_THAT(All(*one)[2], ElementsAre(6, 7, 8));
  EXPECT_EQ(one->Read(2).inputs.at("x").view.shape, (Shape{1, 3}));
  const auto two = Open(dir_ / "x.npy", {Value("x", {2, 3})});
  EXPECT_EQ(two->runs(), 2u);
  EXPECT_EQ(two->samples(), 4u);
  EXPECT_EQ(two->Read(1).samples, 2u);
  EXPECT_THAT(All(*two)[1], ElementsAre(6, 7, 8, 9, 10, 11));
}

TEST_F(DatasetTest, FixedBatchMustDivide) {
  WriteBytes(dir_ / "x.npy", NpyCount({7, 3}));
  const std::vector<GraphValue> inputs = {Value("x", {2, 3})};
  const Error error = Caught([&] { Open(dir_ / "x.npy", inputs); });
  EXPECT_EQ(error.code(), ErrorCode::kModel);
  EXPECT_THAT(error.message(), HasSubstr("2 samples a run, which does not divide the 7"));
  EXPECT_THAT(error.hint(), HasSubstr("--drop-last"));
  EXPECT_THAT(error.hint(), HasSubstr("used 6 of 7"));
  const auto data = Open(dir_ / "x.npy", inputs, {.drop_last = true});
  EXPECT_EQ(data->runs(), 3u);
  EXPECT_EQ(data->samples(), 6u);
  EXPECT_THAT(log_.info, ElementsAre("used 6 of 7 samples"));
  // Fewer than one run: nothing is left to use.
  WriteBytes(dir_ / "one.npy", NpyCount({1, 3}));
  Caught([&] { Open(dir_ / "one.npy", inputs, {.drop_last = true}); });
}

TEST_F(DatasetTest, FixedBatchIsFilledAcrossFiles) {
  for (int i = 0; i < 4; ++i) {
    WriteBytes(dir_ / ("s" + std::to_string(i) + ".npy"), NpyCount({1, 2}, i * 10.0f));
  }
  const auto data = Open(dir_.string(), {Value("x", {2, 2})});
  EXPECT_THAT(All(*data), ElementsAre(ElementsAre(0, 1, 10, 11), ElementsAre(20, 21, 30, 31)));
}

TEST_F(DatasetTest, FreeBatchIsSplitIntoRunsOfBatch) {
  WriteBytes(dir_ / "x.npy", NpyCount({5, 2}));
  const std::vector<GraphValue> inputs = {Value("x", {-1, 2})};
  EXPECT_EQ(Open(dir_ / "x.npy", inputs)->runs(), 5u);
  const auto two = Open(dir_ / "x.npy", inputs, {.batch = 2});
  EXPECT_THAT(All(*two),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(8, 9)));
  EXPECT_EQ(two->Read(2).samples, 1u);
  EXPECT_EQ(two->samples(), 5u);
  const auto all = Open(dir_ / "x.npy", inputs, {.batch = 0});
  EXPECT_EQ(all->runs(), 1u);
  EXPECT_EQ(all->samples(), 5u);
  EXPECT_EQ(all->Read(0).inputs.at("x").view.shape, (Shape{5, 2}));
}

TEST_F(DatasetTest, BatchesJoinFilesOfOneShapeOnly) {
  WriteBytes(dir_ / "a1.npy", NpyCount({1, 2}, 0));
  WriteBytes(dir_ / "a2.npy", NpyCount({1, 2}, 10));
  WriteBytes(dir_ / "a3.npy", NpyCount({1, 3}, 20));
  WriteBytes(dir_ / "a4.npy", NpyCount({1, 3}, 30));
  WriteBytes(dir_ / "a5.npy", NpyCount({1, 3}, 40));
  const auto data =
      Open(dir_.string(), {Value("x", {-1, -1}, DType::kF32, {"n", "w"})}, {.batch = 4});
  EXPECT_EQ(data->runs(), 2u);
  EXPECT_EQ(data->Read(0).inputs.at("x").view.shape, (Shape{2, 2}));
  EXPECT_EQ(data->Read(1).inputs.at("x").view.shape, (Shape{3, 3}));
  EXPECT_EQ(data->samples(), 5u);
}

TEST_F(DatasetTest, SequencesAreNotCut) {
  WriteBytes(dir_ / "x.npy", NpyCount({6, 4}));
  WriteBytes(dir_ / "ids.npy", NpyInts({6}, {1, 2, 3, 4, 5, 6}));
  for (const char* name : {"time", "seq_len", "T", "sequence", "num_frames", "tokens"}) {
    const auto data = Open(dir_ / "x.npy", {Value("x", {-1, 4}, DType::kF32, {name, ""})});
    EXPECT_EQ(data->runs(), 1u) << name;
    EXPECT_EQ(data->samples(), 1u) << name;
  }
  for (const char* name : {"", "N", "batch", "batch_size", "unk__7"}) {
    const auto data = Open(dir_ / "x.npy", {Value("x", {-1, 4}, DType::kF32, {name, ""})});
    EXPECT_EQ(data->runs(), 6u) << name;
  }
  EXPECT_EQ(Open(dir_ / "ids.npy", {Value("ids", {-1}, DType::kI64)})->runs(), 1u)
      << "a vector is a sequence";
  EXPECT_EQ(Open(dir_ / "ids.npy", {Value("ids", {-1}, DType::kI64, {"batch"})})->runs(), 6u);
  // The option decides.
  EXPECT_EQ(
      Open(dir_ / "x.npy", {Value("x", {-1, 4})}, {.leading = LeadingDimension::kWhole})->runs(),
      1u);
  EXPECT_EQ(Open(dir_ / "x.npy", {Value("x", {-1, 4}, DType::kF32, {"time", ""})},
                 {.leading = LeadingDimension::kBatch})
                ->runs(),
            6u);
}

TEST_F(DatasetTest, AStateWithTheBatchInTheMiddleKeepsFilesWhole) {
  WriteZip(dir_ / "d.npz", {{"x.npy", NpyCount({8, 4})}, {"h.npy", NpyCount({2, 8, 3})}});
  EXPECT_EQ(Open(dir_ / "d.npz", {Value("x", {-1, 4}), Value("h", {2, -1, 3})})->runs(), 1u);
  EXPECT_EQ(Open(dir_ / "d.npz", {Value("x", {-1, 4}, DType::kF32, {"batch", ""}),
                                  Value("h", {2, -1, 3}, DType::kF32, {"", "batch", ""})})
                ->runs(),
            1u);
  // With another name it is another dimension: the state goes into every run.
  const auto data = Open(dir_ / "d.npz", {Value("x", {-1, 4}, DType::kF32, {"batch", ""}),
                                          Value("h", {2, -1, 3}, DType::kF32, {"", "width", ""})});
  EXPECT_EQ(data->runs(), 8u);
  EXPECT_EQ(data->Read(3).inputs.at("h").view.shape, (Shape{2, 8, 3}));
}

TEST_F(DatasetTest, NpzBySeveralNames) {
  for (const bool deflate : {false, true}) {
    WriteZip(dir_ / "d.npz",
             {{"ids.npy", NpyInts({2, 3}, {1, 2, 3, 4, 5, 6})},
              {"notes.txt", "not an array"},
              {"past.npy", NpyFloats({2, 4, 0, 8}, {})},
              {"scale.npy", NpyFloats({}, {0.5f})}},
             deflate);
    const std::vector<GraphValue> inputs = {
        Value("scale", {}), Value("past", {-1, 4, -1, 8}, DType::kF32, {"batch", "", "past", ""}),
        Value("ids", {-1, -1}, DType::kI64, {"batch", "seq"})};
    const auto data = Open(dir_ / "d.npz", inputs);
    ASSERT_EQ(data->runs(), 2u);
    for (const size_t run : {0u, 1u, 0u}) {  // also backwards
      const DataRun read = data->Read(run);
      const Tensor& ids = read.inputs.at("ids");
      ASSERT_EQ(ids.view.shape, (Shape{1, 3}));
      int64_t values[3];
      std::memcpy(values, ids.view.data, sizeof values);
      EXPECT_EQ(values[0], static_cast<int64_t>(run) * 3 + 1);
      EXPECT_EQ(values[2], static_cast<int64_t>(run) * 3 + 3);
      EXPECT_EQ(read.inputs.at("past").view.shape, (Shape{1, 4, 0, 8}));
      EXPECT_THAT(Floats(read.inputs.at("scale").view), ElementsAre(0.5f));
    }
  }
}

TEST_F(DatasetTest, ShapesMayDifferFromFileToFile) {
  WriteBytes(dir_ / "a.npy", NpyInts({1, 3}, {1, 2, 3}));
  WriteBytes(dir_ / "b.npy", NpyInts({1, 7}, {1, 2, 3, 4, 5, 6, 7}));
  WriteBytes(dir_ / "c.npy", NpyInts({1, 1}, {1}));
  const auto data = Open(dir_.string(), {Value("ids", {1, -1}, DType::kI64)});
  ASSERT_EQ(data->runs(), 3u);
  EXPECT_EQ(data->Read(1).inputs.at("ids").view.shape, (Shape{1, 7}));
  EXPECT_EQ(data->Read(2).inputs.at("ids").view.shape, (Shape{1, 1}));
}

TEST_F(DatasetTest, SamplesLimitsWhatIsUsed) {
  WriteBytes(dir_ / "x.npy", NpyCount({6, 2}));
  EXPECT_EQ(Open(dir_ / "x.npy", {Value("x", {1, 2})}, {.samples = 4})->samples(), 4u);
  EXPECT_EQ(Open(dir_ / "x.npy", {Value("x", {1, 2})}, {.samples = 40})->samples(), 6u);
  EXPECT_EQ(Open(dir_ / "x.npy", {Value("x", {2, 2})}, {.samples = 5})->samples(), 4u)
      << "whole runs only";
  EXPECT_EQ(Open(dir_ / "x.npy", {Value("x", {-1, 2})}, {.samples = 5, .batch = 2})->samples(), 5u);
  EXPECT_EQ(Caught([&] {
              Open(dir_ / "x.npy", {Value("x", {3, 2})}, {.samples = 2});
            }).code(),
            ErrorCode::kUsage);
  WriteBytes(dir_ / "y.npy", "broken, but never needed");
  EXPECT_EQ(Open(dir_.string(), {Value("x", {1, 2})}, {.samples = 6})->samples(), 6u);
}

TEST_F(DatasetTest, MissingInputsAreNamed) {
  WriteZip(dir_ / "d.npz",
           {{"input_id.npy", NpyInts({1, 2}, {1, 2})}, {"mask.npy", NpyInts({1, 2}, {1, 1})}});
  const Error error = Caught([&] {
    Open(dir_ / "d.npz",
         {Value("mask", {1, 2}, DType::kI64), Value("input_ids", {1, 2}, DType::kI64)});
  });
  EXPECT_EQ(error.code(), ErrorCode::kModel);
  EXPECT_THAT(error.message(), HasSubstr("'input_ids'"));
  EXPECT_THAT(error.message(), HasSubstr("input_id, mask"));
  EXPECT_THAT(error.hint(), HasSubstr("'input_id'"));
  EXPECT_THAT(error.where(), HasSubstr("d.npz"));
  // What is not needed is left out, with a warning.
  const auto data = Open(dir_ / "d.npz", {Value("mask", {1, 2}, DType::kI64)});
  EXPECT_EQ(data->runs(), 1u);
  EXPECT_THAT(log_.warnings, ElementsAre(HasSubstr("'input_id'")));
}

TEST_F(DatasetTest, UnnamedArraysNeedASingleInput) {
  WriteZip(dir_ / "d.npz", {{"arr_0.npy", NpyCount({1, 2})}});
  EXPECT_EQ(Open(dir_ / "d.npz", {Value("x", {1, 2})})->runs(), 1u);
  WriteBytes(dir_ / "n/s.npy", NpyCount({1, 2}));
  const Error error = Caught([&] { Open(dir_ / "n", {Value("a", {1, 2}), Value("b", {1, 2})}); });
  EXPECT_THAT(error.message(), HasSubstr("2 inputs (a, b)"));
  // But a folder with one array for each name is a sample.
  WriteBytes(dir_ / "m/a.npy", NpyCount({1, 2}));
  WriteBytes(dir_ / "m/b.npy", NpyCount({1, 2}, 5));
  const auto data = Open(dir_ / "m", {Value("a", {1, 2}), Value("b", {1, 2})});
  EXPECT_EQ(data->runs(), 1u);
  EXPECT_THAT(All(*data, "b"), ElementsAre(ElementsAre(5, 6)));
}

TEST_F(DatasetTest, WrongShapesAndTypes) {
  WriteBytes(dir_ / "x.npy", NpyCount({1, 3, 4}));
  const Error shape = Caught([&] {
    Open(dir_ / "x.npy", {Value("x", {1, 5, -1}, DType::kF32, {"", "", "w"})});
  });
  EXPECT_THAT(shape.message(), HasSubstr("expected shape [1, 5, w], found [1, 3, 4]"));
  EXPECT_THAT(shape.where(), HasSubstr("x.npy"));
  const Error rank = Caught([&] { Open(dir_ / "x.npy", {Value("x", {1, 3})}); });
  EXPECT_THAT(rank.message(), HasSubstr("expected shape [1, 3], found [1, 3, 4]"));
  const Error dtype = Caught([&] { Open(dir_ / "x.npy", {Value("x", {1, 3, 4}, DType::kI64)}); });
  EXPECT_THAT(dtype.message(), HasSubstr("expected I64, found F32"));
  GraphValue any = Value("x", {});
  any.rank_known = false;
  EXPECT_EQ(Open(dir_ / "x.npy", {any})->runs(), 1u);
}

TEST_F(DatasetTest, InputsThatDisagreeAreRefused) {
  WriteZip(dir_ / "d.npz", {{"a.npy", NpyCount({4, 2})}, {"b.npy", NpyCount({3, 2})}});
  const Error error = Caught([&] {
    Open(dir_ / "d.npz", {Value("a", {1, 2}), Value("b", {1, 2})});
  });
  EXPECT_THAT(error.message(), HasSubstr("input 'b'"));
  EXPECT_THAT(error.message(), HasSubstr("'a'"));
  // Free ones that disagree are no batch.
  EXPECT_EQ(Open(dir_ / "d.npz", {Value("a", {-1, 2}), Value("b", {-1, 2})})->runs(), 1u);
  // Different fixed dimensions: each input has its own number of rows a run.
  WriteZip(dir_ / "e.npz", {{"x.npy", NpyCount({3, 5})}, {"h.npy", NpyCount({6, 2})}});
  const auto data = Open(dir_ / "e.npz", {Value("x", {1, 5}), Value("h", {2, 2})});
  EXPECT_EQ(data->runs(), 3u);
  EXPECT_THAT(All(*data, "h")[2], ElementsAre(8, 9, 10, 11));
}

TEST_F(DatasetTest, FloatTypesAreConvertedWithANote) {
  WriteBytes(dir_ / "h.npy", NpyBytes("<f2", {1, 2}, Bytes<uint16_t>({0x3c00, 0xc100})));
  EXPECT_THAT(All(*Open(dir_ / "h.npy", {Value("x", {1, 2})})), ElementsAre(ElementsAre(1, -2.5f)));
  EXPECT_THAT(log_.info, ElementsAre(HasSubstr("F16 is converted to F32")));
  EXPECT_THAT(log_.warnings, IsEmpty());
  WriteBytes(dir_ / "d.npy", NpyBytes("<f8", {1, 2}, Bytes<double>({0.1, 1e300})));
  EXPECT_THAT(All(*Open(dir_ / "d.npy", {Value("x", {1, 2})})),
              ElementsAre(ElementsAre(0.1f, std::numeric_limits<float>::infinity())));
  EXPECT_THAT(log_.warnings, ElementsAre(HasSubstr("F64 is rounded to F32")));
  WriteBytes(dir_ / "b.npy", NpyBytes("<u2", {1, 2}, Bytes<uint16_t>({0x3f80, 0xc020})));
  EXPECT_THAT(All(*Open(dir_ / "b.npy", {Value("x", {1, 2}, DType::kBF16)})),
              ElementsAre(ElementsAre(1, -2.5f)));
  WriteBytes(dir_ / "i.npy", NpyBytes("<i4", {1, 2}, Bytes<int32_t>({-7, 7})));
  const Tensor ids =
      Open(dir_ / "i.npy", {Value("x", {1, 2}, DType::kI64)})->Read(0).inputs.at("x");
  ASSERT_EQ(ids.view.dtype, DType::kI64);
  int64_t values[2];
  std::memcpy(values, ids.view.data, sizeof values);
  EXPECT_EQ(values[0], -7);
  EXPECT_EQ(values[1], 7);
}

TEST_F(DatasetTest, SafetensorsByName) {
  const std::string header = R"({"x":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                             R"("m":{"dtype":"I64","shape":[2],"data_offsets":[16,32]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  file += header + Bytes<float>({1, 2, 3, 4}) + Bytes<int64_t>({7, 8});
  WriteBytes(dir_ / "d.safetensors", file);
  const auto data =
      Open(dir_ / "d.safetensors", {Value("m", {1}, DType::kI64), Value("x", {1, 2})});
  ASSERT_EQ(data->runs(), 2u);
  EXPECT_THAT(All(*data), ElementsAre(ElementsAre(1, 2), ElementsAre(3, 4)));
}

TEST_F(DatasetTest, RowsWithoutValuesAreNoSamples) {
  WriteBytes(dir_ / "a.npy", NpyBytes("<f4", {2147483647, 0}, ""));
  EXPECT_EQ(Open(dir_ / "a.npy", {Value("x", {-1, 0})})->runs(), 1u);
  EXPECT_THAT(Caught([&] {
                Open(dir_ / "a.npy", {Value("x", {1, 0})});
              }).message(),
              HasSubstr("expected values in its rows, found shape [2147483647, 0]"));
}

TEST_F(DatasetTest, NothingToRead) {
  const std::vector<GraphValue> inputs = {Value("x", {1, 2})};
  EXPECT_THAT(Caught([&] { Open(dir_.string(), inputs); }).message(), HasSubstr("empty"));
  WriteBytes(dir_ / "a.csv", "1,2");
  EXPECT_THAT(Caught([&] { Open(dir_.string(), inputs); }).message(), HasSubstr("a.csv"));
  EXPECT_THAT(Caught([&] { Open(dir_ / "a.csv", inputs); }).message(), HasSubstr("a.csv"));
  const Error missing = Caught([&] { Open(dir_ / "none.npz", inputs); });
  EXPECT_EQ(missing.code(), ErrorCode::kModel);
  EXPECT_THAT(missing.message(), HasSubstr("no such file"));
  Caught([&] { Open(dir_ / "a.csv", {}); });
}

TEST_F(DatasetTest, RandomDataIsTheSameEveryTime) {
  const std::vector<GraphValue> inputs = {
      Value("image", {-1, 3, -1, -1}), Value("ids", {-1, -1}, DType::kI64),
      Value("attention_mask", {-1, -1}, DType::kI64),
      Value("past", {1, 2, -1, 4}, DType::kF32, {"", "", "past_len", ""})};
  const auto data = Open("random:3", inputs, {.image = {.size = {8, 6}}});
  EXPECT_TRUE(data->synthetic());
  EXPECT_EQ(data->samples(), 3u);
  const DataRun first = data->Read(0);
  EXPECT_EQ(first.inputs.at("image").view.shape, (Shape{1, 3, 8, 6}));
  EXPECT_EQ(first.inputs.at("past").view.shape, (Shape{1, 2, 0, 4}));
  const auto values = Floats(first.inputs.at("image").view);
  EXPECT_NE(values, Floats(data->Read(1).inputs.at("image").view));
  EXPECT_EQ(
      values,
      Floats(
          Open("random:3", inputs, {.image = {.size = {8, 6}}})->Read(0).inputs.at("image").view));
  double sum = 0;
  double squares = 0;
  for (const float v : values) {
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.3);
  EXPECT_NEAR(squares / n, 1, 0.4);
  EXPECT_EQ(Open("random:4", {Value("x", {2, 5})})->runs(), 2u) << "a fixed batch is filled";
  for (const char* bad : {"random:", "random:0", "random:-1", "random:3x", "random:99999999999"}) {
    EXPECT_EQ(Caught([&] { Open(bad, inputs); }).code(), ErrorCode::kUsage) << bad;
  }
}

}  // namespace
}  // namespace hif8
