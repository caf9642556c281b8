// One file (or one folder) of data that feeds a model. Internal to this module.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/core/log.h"
#include "lib/core/tensor.h"
#include "lib/model/graph.h"
#include "lib/runtime/dataset.h"

namespace hif8 {

class DataFile {
 public:
  struct Array {
    std::string name;  // "": for the only input
    DType dtype = DType::kF32;
    Shape shape;
  };

  virtual ~DataFile() = default;
  const std::vector<Array>& arrays() const { return arrays_; }
  // Rows [first, first + count) along the leading dimension; a scalar for (0, 1). Throws kModel
  // naming the file.
  virtual Tensor Read(size_t array, size_t first, size_t count) = 0;

 protected:
  std::vector<Array> arrays_;
};

// Rows of a tensor, sharing its memory.
Tensor Rows(const Tensor& whole, size_t first, size_t count);

// Tensors that are mapped or in memory already, under their names.
class TensorsFile : public DataFile {
 public:
  void Add(const std::string& name, Tensor tensor);
  Tensor Read(size_t array, size_t first, size_t count) override;

 private:
  std::vector<Tensor> tensors_;
};

// Lists what a folder holds, hidden files aside, in natural order (img2 before img10). Throws
// kModel when it cannot be read.
std::vector<std::filesystem::path> FolderEntries(const std::filesystem::path& folder);

// Each throws kModel when the file is not what it should be.
std::unique_ptr<DataFile> OpenNpz(const std::filesystem::path& path);
std::unique_ptr<DataFile> OpenSafetensorsData(const std::filesystem::path& path);
// input_*.pb files, in order.
std::unique_ptr<DataFile> OpenTestData(const std::vector<std::filesystem::path>& paths,
                                       std::span<const GraphValue> inputs);
std::unique_ptr<DataFile> OpenImage(const std::filesystem::path& path, const ImageOptions& options,
                                    const GraphValue& input);
// Sample number `index` of made-up data: floats are normal with deviation 1, integers and booleans
// 0 or 1 (1 for masks). Free dimensions: 1 in front, 0 for what is past, `image` size for images,
// 512 for a vector of floats, else 8.
std::unique_ptr<DataFile> MakeRandomData(uint64_t seed, size_t index, const ImageOptions& image,
                                         std::span<const GraphValue> inputs);

// Something that OpenItem opens.
struct DataItem {
  enum class Kind { kNpy, kNpz, kSafetensors, kTestData, kImage, kRandom };
  Kind kind = Kind::kNpy;
  std::vector<std::filesystem::path> paths;
  std::vector<std::string> names;  // kNpy: of the inputs, parallel to paths
  size_t index = 0;                // kRandom
  std::string where() const { return paths.empty() ? "random" : paths[0].string(); }
};

// Returns the items behind a path, at least one.
std::vector<DataItem> FindItems(const std::filesystem::path& path,
                                std::span<const GraphValue> inputs, LogSink& log);

std::unique_ptr<DataFile> OpenItem(const DataItem& item, const DataOptions& options,
                                   std::span<const GraphValue> inputs);

}  // namespace hif8
