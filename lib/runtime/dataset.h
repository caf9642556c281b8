// Calibration and evaluation data, whatever it is stored in, as runs of a model.
//
// Sources:
//   x.npy, or a folder of them    one input: each file is one array
//   folder with <input>.npy       several inputs: one array for each input, under its name
//   x.npz, x.safetensors, folder  arrays under the inputs' names (a single arr_0 fits a single
//   input) test_data_set_*/input_*.pb    ONNX test data: by the tensor's name, else by position
//   jpg, png, bmp, or a folder    one input: each file is one image, see ImageOptions
//   random:N                      N made-up samples
// Files of a folder are taken in natural order (2 before 10), hidden and unknown ones are left out.
//
// Samples and runs. A run is what one call of the model gets.
// * A model whose inputs have one fixed leading dimension b takes b samples a run; files may hold
//   any number of samples along their leading dimension.
// * A free leading dimension is taken for a batch when all inputs that have one agree on its size
//   in the file, when its name does not speak of a sequence (seq, time, len, frame, token, ...),
//   and no other dimension depends on it; tensors of rank 1 count only when the name says "batch".
//   It is then cut into runs of `batch` samples, so that memory holds one run. The other inputs go
//   to every run as they are.
// * Everything else is one run and one sample a file.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lib/core/enum_names.h"
#include "lib/core/log.h"
#include "lib/model/graph.h"
#include "lib/runtime/named_tensors.h"

namespace hif8 {

enum class ImageLayout { kNchw, kNhwc };
template <>
inline constexpr EnumTable<ImageLayout, 2> kEnumNames<ImageLayout>{
    {{ImageLayout::kNchw, "nchw"}, {ImageLayout::kNhwc, "nhwc"}}};

enum class ImageChannels { kRgb, kBgr, kGray };
template <>
inline constexpr EnumTable<ImageChannels, 3> kEnumNames<ImageChannels>{
    {{ImageChannels::kRgb, "rgb"}, {ImageChannels::kBgr, "bgr"}, {ImageChannels::kGray, "gray"}}};

// Says how an image becomes a tensor: decoded to 8 bits a channel, resized (triangle filter,
// widened when shrinking), scaled to [0, 1], then (v - mean) / std per channel in the order of
// `channels`. An input of type U8 gets the values 0 to 255 instead, and no mean or std.
struct ImageOptions {
  std::array<int64_t, 2> size = {224, 224};  // height and width, where the input leaves them open
  std::array<double, 3> mean = {0, 0, 0};    // per channel, of values in [0, 1]
  std::array<double, 3> std = {1, 1, 1};     // per channel, > 0
  ImageLayout layout = ImageLayout::kNchw;
  ImageChannels channels = ImageChannels::kRgb;
  bool operator==(const ImageOptions&) const = default;
};

enum class LeadingDimension {
  kAuto,   // as described above
  kBatch,  // a free leading dimension counts samples
  kWhole   // it does not: files are fed as they are
};

struct DataOptions {
  std::string source{};  // path, or "random:N"
  size_t samples = 0;    // use the first so many; 0: all
  size_t batch = 1;      // samples a run where the model leaves it open; 0: all that a file holds
  bool drop_last = false;
  LeadingDimension leading = LeadingDimension::kAuto;
  ImageOptions image{};
  uint64_t seed = 1;  // of random:N
};

struct DataRun {
  NamedTensors inputs;
  size_t samples = 1;
  std::string where;  // the file, or the first of them
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual size_t runs() const = 0;
  virtual uint64_t samples() const = 0;  // of all runs together
  virtual bool synthetic() const = 0;    // made up, not read
  // Reads any run, in any order; fastest in rising order (compressed archives are read forwards).
  // Throws kModel naming the file when it cannot be read. By one thread at a time.
  virtual DataRun Read(size_t run) = 0;
};

// Opens the data of a model with these inputs and checks every file's names, types and shapes
// against them. Throws kModel (missing, empty or unreadable files; missing inputs; types and shapes
// that do not fit; samples that a fixed batch does not divide, without drop_last) and kUsage (a
// malformed random:N, fewer `samples` than one run needs). `log` gets notes on what is left out or
// converted: floating-point types are converted to the input's own (rounding is a warning),
// integers to wider ones, and uint16 is taken for the bits of bf16.
std::unique_ptr<Dataset> OpenDataset(const DataOptions& options, std::span<const GraphValue> inputs,
                                     LogSink& log);

}  // namespace hif8
