#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/fuzz/mutate_forms.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace hif8 {
namespace {

constexpr std::string_view kFileMark = "--- ";

InputForm FormOf(std::string_view name) {
  for (const std::string_view end : {".json", ".safetensors"}) {
    if (name.ends_with(end)) return InputForm::kJson;
  }
  for (const std::string_view end : {".pb", ".model", ".onnx"}) {
    if (name.ends_with(end)) return InputForm::kProtobuf;
  }
  for (const std::string_view end : {".yaml", ".jsonl", ".txt", "inputs"}) {
    if (name.ends_with(end)) return InputForm::kLines;
  }
  return InputForm::kBytes;
}

std::string Mutate(InputForm form, const std::string& bytes, Dice* dice);

std::string MutateFiles(const std::string& input, Dice* dice) {
  std::vector<InputFile> files = SplitFiles(input);
  if (files.empty()) return MutateBytes(input);
  const size_t at = dice->Below(files.size());
  const size_t other = dice->Below(files.size());
  switch (dice->Below(40)) {
    case 0:
      files.erase(files.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      std::swap(files[at].bytes, files[other].bytes);
      break;
    case 2:
      std::swap(files[at].name, files[other].name);
      break;
    case 3: {
      std::string name = MutateBytes(files[at].name);
      std::erase_if(name, [](char c) { return c == '\n' || c == '\0'; });
      files[at].name = name.substr(0, 60);
      break;
    }
    default:
      files[at].bytes = Mutate(FormOf(files[at].name), files[at].bytes, dice);
  }
  return JoinFiles(files);
}

std::string Mutate(InputForm form, const std::string& bytes, Dice* dice) {
  if (dice->OneIn(8) || bytes.empty()) return MutateBytes(bytes);
  switch (form) {
    case InputForm::kBytes:
      return MutateBytes(bytes);
    case InputForm::kJson:
      return MutateJson(bytes, dice);
    case InputForm::kLines:
      return MutateLines(bytes, dice);
    case InputForm::kProtobuf:
      return MutateProtobuf(bytes, dice);
    case InputForm::kFiles:
      return MutateFiles(bytes, dice);
  }
  return bytes;
}

}  // namespace

std::string MutateBytes(std::string bytes) {
  const size_t size = bytes.size();
  bytes.resize(size + 64);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), size, bytes.size()));
  return bytes;
}

size_t MutateInput(InputForm form, uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Dice dice(seed);
  std::string input(reinterpret_cast<const char*>(data), size);
  do {
    input = Mutate(form, input, &dice);
  } while (dice.OneIn(2));
  const size_t kept = std::min(input.size(), max_size);
  std::memcpy(data, input.data(), kept);
  return kept;
}

std::vector<InputFile> SplitFiles(std::string_view input) {
  std::vector<InputFile> files;
  bool in_file = false;
  while (!input.empty()) {
    const size_t line = std::min(input.find('\n'), input.size() - 1) + 1;
    if (input.starts_with(kFileMark)) {
      std::string_view name = input.substr(kFileMark.size(), line - kFileMark.size());
      while (!name.empty() && name.back() == '\n') name.remove_suffix(1);
      // A name that leads out of the folder is not what is tested.
      if (name.starts_with("/") || name.find("..") != std::string_view::npos || name.empty())
        name = "other";
      files.push_back({std::string(name), {}});
      in_file = true;
    } else if (in_file) {
      files.back().bytes += input.substr(0, line);
    }
    input.remove_prefix(line);
  }
  // The line break before the next mark is the mark's.
  for (InputFile& file : files) {
    if (file.bytes.ends_with('\n')) file.bytes.pop_back();
  }
  return files;
}

std::string JoinFiles(const std::vector<InputFile>& files) {
  std::string input;
  for (const InputFile& file : files) {
    input.append(kFileMark).append(file.name).append("\n").append(file.bytes).append("\n");
  }
  return input;
}

}  // namespace hif8
