// Data of ONNX models: a folder of .npy, .npz, .safetensors, .pb and image files for a model with
// the inputs that the file "inputs" lists, one a line: NAME TYPE DIMENSION..., where a dimension is
// a number or a name. The members of an .npz are files "ARCHIVE.npz/NAME.npy", unless the archive
// is a file itself.
#include "lib/runtime/dataset.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/readers.h"

HIF8_FUZZ_FORM(kFiles)

namespace hif8 {
namespace {

std::vector<GraphValue> ReadInputs(const std::string& text) {
  std::vector<GraphValue> inputs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && inputs.size() < 4;) {
    std::istringstream words(line);
    GraphValue input;
    std::string type;
    if (!(words >> input.name >> type)) continue;
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kI64, DType::kI32, DType::kU8}) {
      if (DTypeName(dtype) == type) input.dtype = dtype;
    }
    input.rank_known = line.find(" ?") == std::string::npos;
    for (std::string word; input.rank_known && words >> word;) {
      const int64_t size = std::atoll(word.c_str());
      input.shape.push_back(size > 0 && size < 64 ? size : -1);
      input.dim_names.push_back(size > 0 ? "" : word);
    }
    const bool known = std::any_of(inputs.begin(), inputs.end(), [&](const GraphValue& other) {
      return other.name == input.name;  // no graph has two of a name
    });
    if (!known) inputs.push_back(std::move(input));
  }
  return inputs;
}

// Reads all runs, and checks that each has a tensor of the input's type and rank for each input.
void ReadAll(const std::filesystem::path& source, std::span<const GraphValue> inputs,
             DataOptions options) {
  options.source = source.string();
  options.image.size = {16, 16};
  const std::unique_ptr<Dataset> data = OpenDataset(options, inputs, NullLog());
  for (size_t run = 0; run < data->runs() && run < 20; ++run) {
    const DataRun read = data->Read(run);
    for (const GraphValue& input : inputs) {
      const TensorView& view = read.inputs.at(input.name).view;
      Require(view.dtype == input.dtype, "data has the input's type");
      Require(!input.rank_known || view.shape.size() == input.shape.size(),
              "data has the input's rank");
      Touch(view);
    }
  }
}

}  // namespace
}  // namespace hif8

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hif8;
  // What an image's header may claim grows with the file; this much of it fits into the limit of
  // memory.
  constexpr size_t kLargest = 2048;
  std::vector<InputFile> files;
  std::map<std::string, std::vector<InputFile>> archives;
  std::vector<GraphValue> inputs;
  for (InputFile& file : SplitFiles(AsText(data, size))) {
    const size_t inside = file.name.find(".npz/");
    if (file.name == "inputs") {
      inputs = ReadInputs(file.bytes);
    } else if (inside != std::string::npos) {
      archives[file.name.substr(0, inside + 4)].push_back(
          {file.name.substr(inside + 5), std::move(file.bytes)});
    } else if (file.bytes.size() <= kLargest) {
      files.push_back(std::move(file));
    }
  }
  for (const auto& [name, members] : archives) files.push_back({name, ZipBytes(members)});
  const std::filesystem::path folder = WriteFuzzFiles(files);
  RunFuzzed([&] { ReadAll(folder, inputs, {}); });
  RunFuzzed([&] { ReadAll(folder, inputs, {.samples = 3, .batch = 2, .drop_last = true}); });
  if (!files.empty()) {
    RunFuzzed([&] { ReadAll(folder / files[0].name, inputs, {.batch = 0}); });
  }
  return 0;
}
