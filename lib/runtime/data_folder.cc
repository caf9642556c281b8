#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/npy.h"
#include "lib/runtime/data_file.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<std::string_view, DataItem::Kind>, 8> kExtensions = {{
    {".npy", DataItem::Kind::kNpy},
    {".npz", DataItem::Kind::kNpz},
    {".safetensors", DataItem::Kind::kSafetensors},
    {".pb", DataItem::Kind::kTestData},
    {".jpg", DataItem::Kind::kImage},
    {".jpeg", DataItem::Kind::kImage},
    {".png", DataItem::Kind::kImage},
    {".bmp", DataItem::Kind::kImage},
}};
constexpr std::string_view kExpected =
    ".npy, .npz, .safetensors, ONNX test data (test_data_set_*/input_*.pb) or images (jpg, png)";

std::optional<DataItem::Kind> KindOf(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto& [known, kind] : kExtensions) {
    if (extension == known) return kind;
  }
  return std::nullopt;
}

// Numbers in names count as numbers: img2 before img10.
bool NaturalLess(const fs::path& left, const fs::path& right) {
  const std::string a = left.filename().string();
  const std::string b = right.filename().string();
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto number = [&](const std::string& text, size_t* at) {
    while (*at + 1 < text.size() && text[*at] == '0' && digit(text[*at + 1])) ++*at;
    const size_t begin = *at;
    while (*at < text.size() && digit(text[*at])) ++*at;
    return std::string_view(text).substr(begin, *at - begin);
  };
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const std::string_view x = number(a, &i);
      const std::string_view y = number(b, &j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  const size_t a_rest = a.size() - i;
  const size_t b_rest = b.size() - j;
  return a_rest != b_rest ? a_rest < b_rest : a < b;
}

}  // namespace

std::vector<fs::path> FolderEntries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with('.')) entries.push_back(it->path());
  }
  if (error)
    throw ModelError("the folder cannot be read: " + error.message(), "make the folder readable",
                     folder.string());
  std::sort(entries.begin(), entries.end(), NaturalLess);
  return entries;
}

namespace {

bool IsTestInput(const fs::path& path) {
  return path.filename().string().starts_with("input_") && path.extension() == ".pb";
}

std::vector<fs::path> TestInputs(const fs::path& folder) {
  std::vector<fs::path> inputs = FolderEntries(folder);
  std::erase_if(inputs, [](const fs::path& path) { return !IsTestInput(path); });
  return inputs;
}

// One array for each input under its name, when the model has several.
std::optional<DataItem> NpyGroup(const fs::path& folder, std::span<const GraphValue> inputs) {
  DataItem item;
  for (const GraphValue& input : inputs) {
    const fs::path path = folder / (input.name + ".npy");
    if (!fs::is_regular_file(path)) return std::nullopt;
    item.paths.push_back(path);
    item.names.push_back(input.name);
  }
  return item;
}

void CheckOneInput(const DataItem& item, std::span<const GraphValue> inputs) {
  const bool unnamed = item.kind == DataItem::Kind::kImage ||
                       (item.kind == DataItem::Kind::kNpy && item.names.empty());
  if (!unnamed || inputs.size() == 1) return;
  std::string names;
  for (const GraphValue& input : inputs) names += (names.empty() ? "" : ", ") + input.name;
  throw ModelError("the model has " + std::to_string(inputs.size()) + " inputs (" + names +
                       "), and this file does not say which one it is for",
                   "save all of them in one .npz under their names", item.where());
}

std::vector<DataItem> ItemsOfFolder(const fs::path& folder, std::span<const GraphValue> inputs,
                                    LogSink& log) {
  std::vector<DataItem> items;
  if (inputs.size() > 1) {
    if (auto group = NpyGroup(folder, inputs)) return {*std::move(group)};
  }
  if (std::vector<fs::path> own = TestInputs(folder); !own.empty()) {
    return {{.kind = DataItem::Kind::kTestData, .paths = std::move(own), .names = {}}};
  }
  std::vector<fs::path> unknown;
  std::string inner_folder;
  for (const fs::path& path : FolderEntries(folder)) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      std::vector<fs::path> inner = TestInputs(path);
      if (path.filename().string().starts_with("test_data_set_") && !inner.empty()) {
        items.push_back(
            {.kind = DataItem::Kind::kTestData, .paths = std::move(inner), .names = {}});
      }
      inner_folder = path.filename().string();
      continue;
    }
    const std::optional<DataItem::Kind> kind = KindOf(path);
    if (kind && *kind != DataItem::Kind::kTestData) {
      items.push_back({.kind = *kind, .paths = {path}, .names = {}});
    } else {
      unknown.push_back(path);
    }
  }
  if (items.empty()) {
    throw ModelError(
        "the data folder holds nothing to read" +
            (!unknown.empty() ? ", only files such as " + unknown[0].filename().string()
             : !inner_folder.empty()
                 ? ", only folders such as '" + inner_folder + "', which are not looked into"
                 : std::string(" (it is empty)")),
        "expected " + std::string(kExpected), folder.string());
  }
  if (!unknown.empty()) {
    log.Info("left out " + std::to_string(unknown.size()) + " file(s) of " + folder.string() +
             " that are no data, such as " + unknown[0].filename().string());
  }
  return items;
}

}  // namespace

std::vector<DataItem> FindItems(const fs::path& path, std::span<const GraphValue> inputs,
                                LogSink& log) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw ModelError(error && status.type() == fs::file_type::none
                         ? "cannot be read: " + error.message()
                         : "no such file or folder",
                     "give calibration data: " + std::string(kExpected), path.string());
  }
  std::vector<DataItem> items;
  if (fs::is_directory(status)) {
    items = ItemsOfFolder(path, inputs, log);
  } else if (const std::optional<DataItem::Kind> kind = KindOf(path)) {
    items = {{.kind = *kind, .paths = {path}, .names = {}}};
  } else {
    throw ModelError("expected data as " + std::string(kExpected) + "; found a file named '" +
                         path.filename().string() + "'",
                     "name the file after what is in it", path.string());
  }
  for (const DataItem& item : items) CheckOneInput(item, inputs);
  return items;
}

std::unique_ptr<DataFile> OpenItem(const DataItem& item, const DataOptions& options,
                                   std::span<const GraphValue> inputs) {
  switch (item.kind) {
    case DataItem::Kind::kNpy: {
      auto file = std::make_unique<TensorsFile>();
      for (size_t i = 0; i < item.paths.size(); ++i) {
        file->Add(item.names.empty() ? "" : item.names[i], ReadNpy(item.paths[i]));
      }
      return file;
    }
    case DataItem::Kind::kNpz:
      return OpenNpz(item.paths[0]);
    case DataItem::Kind::kSafetensors:
      return OpenSafetensorsData(item.paths[0]);
    case DataItem::Kind::kTestData:
      return OpenTestData(item.paths, inputs);
    case DataItem::Kind::kImage:
      return OpenImage(item.paths[0], options.image, inputs[0]);
    case DataItem::Kind::kRandom:
      return MakeRandomData(options.seed, item.index, options.image, inputs);
  }
  throw BugError("unknown kind of data");
}

}  // namespace hif8
