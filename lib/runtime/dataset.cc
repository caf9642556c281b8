#include "lib/runtime/dataset.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/core/suggest.h"
#include "lib/runtime/data_convert.h"
#include "lib/runtime/data_file.h"
#include "lib/runtime/sample_plan.h"

namespace hif8 {
namespace {

constexpr std::string_view kRandom = "random:";
constexpr size_t kMaxRandom = 1'000'000;

// "[1, 3, height, ?]"
std::string ExpectedShape(const GraphValue& input) {
  std::string text = "[";
  for (size_t d = 0; d < input.shape.size(); ++d) {
    if (d > 0) text += ", ";
    const bool named = d < input.dim_names.size() && !input.dim_names[d].empty();
    if (input.shape[d] >= 0) {
      text += std::to_string(input.shape[d]);
    } else {
      text += named ? input.dim_names[d] : "?";
    }
  }
  return text + "]";
}

size_t ParseRandom(const std::string& source) {
  const char* begin = source.data() + kRandom.size();
  const char* end = source.data() + source.size();
  size_t n = 0;
  const auto [rest, error] = std::from_chars(begin, end, n);
  if (error != std::errc() || rest != end || n == 0 || n > kMaxRandom) {
    throw UsageError(
        "expected random:N with a number of samples from 1 to 1000000, found '" + source + "'",
        "for example random:16");
  }
  return n;
}

// Which array of a file feeds which input, after all checks of names, types and shapes.
class Matcher {
 public:
  Matcher(std::span<const GraphValue> inputs, LogSink& log) : inputs_(inputs), log_(log) {}

  // Array numbers, parallel to the inputs.
  std::vector<size_t> Match(const DataFile& file, const std::string& where) {
    std::vector<size_t> matched;
    for (const GraphValue& input : inputs_) matched.push_back(Find(file, input, where));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Check(file.arrays()[matched[i]], inputs_[i], where);
    }
    for (size_t a = 0; a < file.arrays().size(); ++a) {
      if (std::find(matched.begin(), matched.end(), a) == matched.end()) {
        Warn("'" + file.arrays()[a].name + "' is no input of the model: left out", where);
      }
    }
    return matched;
  }

 private:
  size_t Find(const DataFile& file, const GraphValue& input, const std::string& where) const {
    const std::vector<DataFile::Array>& arrays = file.arrays();
    std::vector<std::string> names;
    for (size_t a = 0; a < arrays.size(); ++a) {
      if (arrays[a].name == input.name) return a;
      names.push_back(arrays[a].name);
    }
    // An array without a name: what numpy.savez calls arr_0 when it is given none.
    if (inputs_.size() == 1 && arrays.size() == 1 && (names[0].empty() || names[0] == "arr_0")) {
      return 0;
    }
    std::string given;
    for (const std::string& name : names) given += (given.empty() ? "" : ", ") + name;
    const std::vector<std::string> near = NearMatches(input.name, names, 1);
    throw ModelError(
        "no data for the model's input '" + input.name + "'; the file holds " +
            (given.empty() ? "no arrays" : given),
        near.empty() ? "save every input under its own name" : "is '" + near[0] + "' meant?",
        where);
  }

  void Check(const DataFile::Array& array, const GraphValue& input, const std::string& where) {
    const std::string from(DTypeName(array.dtype));
    const std::string to(DTypeName(input.dtype));
    switch (ConversionBetween(array.dtype, input.dtype)) {
      case Conversion::kNone:
        break;
      case Conversion::kExact:
        Note("input '" + input.name + "': " + from + " is converted to " + to, where);
        break;
      case Conversion::kBits:
        Note("input '" + input.name + "': " + from + " is taken for the bits of " + to, where);
        break;
      case Conversion::kRounded:
        Warn("input '" + input.name + "': " + from + " is rounded to " + to, where);
        break;
      case Conversion::kRefused:
        throw ModelError("input '" + input.name + "': expected " + to + ", found " + from,
                         "convert the data to the input's type", where);
    }
    bool fits = !input.rank_known || array.shape.size() == input.shape.size();
    // The leading dimension may hold many samples: sample_plan looks at it.
    for (size_t d = 1; fits && input.rank_known && d < input.shape.size(); ++d) {
      fits = input.shape[d] < 0 || input.shape[d] == array.shape[d];
    }
    if (!fits) {
      throw ModelError("input '" + input.name + "': expected shape " + ExpectedShape(input) +
                           ", found " + ShapeText(array.shape),
                       "save the data in the shape that the model takes", where);
    }
  }

  // Said for the first file only.
  void Warn(const std::string& text, const std::string& where) {
    if (said_.insert(text).second) log_.Warn(where + ": " + text);
  }
  void Note(const std::string& text, const std::string& where) {
    if (said_.insert(text).second) log_.Info(where + ": " + text);
  }

  std::span<const GraphValue> inputs_;
  LogSink& log_;
  std::set<std::string> said_;
};

class FileDataset : public Dataset {
 public:
  FileDataset(DataOptions options, std::span<const GraphValue> inputs, LogSink& log)
      : options_(std::move(options)), inputs_(inputs.begin(), inputs.end()) {
    if (inputs_.empty())
      throw ModelError("the model has no inputs that data could be given for", "leave out --data");
    synthetic_ = options_.source.starts_with(kRandom);
    if (synthetic_) {
      MakeRandomItems();
    } else {
      items_ = FindItems(options_.source, inputs_, log);
    }
    PlanAll(log);
  }

  size_t runs() const override { return runs_.size(); }
  uint64_t samples() const override { return samples_; }
  bool synthetic() const override { return synthetic_; }

  DataRun Read(size_t run) override {
    const PlannedRun& planned = runs_[run];
    DataRun result;
    result.samples = planned.samples;
    result.where = items_[planned.pieces[0].item].where();
    std::vector<std::vector<Tensor>> parts(inputs_.size());
    for (const Piece& piece : planned.pieces) {
      for (size_t i = 0; i < inputs_.size(); ++i) parts[i].push_back(ReadPart(piece, i));
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      result.inputs[inputs_[i].name] =
          parts[i].size() == 1 ? std::move(parts[i][0]) : Concatenate(parts[i]);
    }
    return result;
  }

 private:
  void MakeRandomItems() {
    size_t n = ParseRandom(options_.source);
    // A fixed batch is filled: one item is one run.
    const std::unique_ptr<DataFile> first = MakeRandomData(0, 0, options_.image, inputs_);
    std::vector<Shape> shapes;
    for (const DataFile::Array& array : first->arrays()) shapes.push_back(array.shape);
    const SamplePlan plan = PlanSamples(inputs_, shapes, options_.leading, "random");
    n = (n + plan.samples - 1) / plan.samples;
    for (size_t i = 0; i < n; ++i) {
      items_.push_back({.kind = DataItem::Kind::kRandom, .paths = {}, .names = {}, .index = i});
    }
  }

  // Looks at every file's header, so that what does not fit is found before the first run.
  void PlanAll(LogSink& log) {
    Matcher matcher(inputs_, log);
    RunPlanner planner(options_);
    for (size_t item = 0; item < items_.size() && !planner.Full(); ++item) {
      CheckInterrupt();
      const std::string where = items_[item].where();
      const std::unique_ptr<DataFile> file = OpenItem(items_[item], options_, inputs_);
      matches_.push_back(matcher.Match(*file, where));
      std::vector<Shape> shapes;
      std::vector<Shape> tails;
      for (const size_t array : matches_.back()) {
        shapes.push_back(file->arrays()[array].shape);
        tails.emplace_back(shapes.back().begin() + (shapes.back().empty() ? 0 : 1),
                           shapes.back().end());
      }
      plans_.push_back(PlanSamples(inputs_, shapes, options_.leading, where));
      planner.Add(item, plans_.back(), tails);
    }
    runs_ = planner.Finish(log, synthetic_ ? "" : options_.source);
    for (const PlannedRun& run : runs_) samples_ += run.samples;
  }

  Tensor ReadPart(const Piece& piece, size_t input) {
    if (open_ == nullptr || open_item_ != piece.item) {
      open_ = OpenItem(items_[piece.item], options_, inputs_);
      open_item_ = piece.item;
    }
    const size_t array = matches_[piece.item][input];
    const Shape& shape = open_->arrays()[array].shape;
    size_t first = 0;
    size_t count = shape.empty() ? 1 : static_cast<size_t>(shape[0]);
    if (const size_t rows = plans_[piece.item].rows[input]; rows > 0) {
      first = piece.first * rows;
      count = piece.samples * rows;
    }
    Tensor tensor = open_->Read(array, first, count);
    const DType dtype = inputs_[input].dtype;
    return tensor.view.dtype == dtype ? tensor : Convert(tensor.view, dtype);
  }

  DataOptions options_;
  std::vector<GraphValue> inputs_;
  std::vector<DataItem> items_;
  // Of the items that are used, parallel to them.
  std::vector<std::vector<size_t>> matches_;
  std::vector<SamplePlan> plans_;
  std::vector<PlannedRun> runs_;
  uint64_t samples_ = 0;
  bool synthetic_ = false;
  // The file that was read last.
  std::unique_ptr<DataFile> open_;
  size_t open_item_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> OpenDataset(const DataOptions& options, std::span<const GraphValue> inputs,
                                     LogSink& log) {
  return std::make_unique<FileDataset>(options, inputs, log);
}

}  // namespace hif8
