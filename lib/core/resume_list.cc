#include "lib/core/resume_list.h"

#include <sstream>
#include <system_error>
#include <utility>

#include "lib/core/input_file.h"
#include "lib/core/output_dir.h"

namespace hif8 {
namespace fs = std::filesystem;

ResumeList::ResumeList(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (fs::exists(folder_ / kFileName, error)) {
    std::istringstream lines(ReadFile(folder_ / kFileName));
    Entry entry;
    std::string name;
    while (lines >> entry.fingerprint >> entry.size && lines.get() == ' ' &&
           std::getline(lines, name)) {
      if (fs::file_size(folder_ / name, error) == entry.size && !error) entries_[name] = entry;
    }
  }
  for (const auto& file : fs::directory_iterator(folder_, error)) {
    const std::string found = file.path().filename().string();
    if (found != kFileName && !entries_.contains(found)) fs::remove_all(file.path(), error);
  }
}

bool ResumeList::IsFinished(const std::string& name, const std::string& fingerprint) const {
  const auto it = entries_.find(name);
  return it != entries_.end() && it->second.fingerprint == fingerprint;
}

void ResumeList::Add(const std::string& name, const std::string& fingerprint) {
  std::error_code error;
  const uint64_t size = fs::file_size(folder_ / name, error);
  if (error) throw WriteError(folder_ / name, error.value());
  entries_[name] = {fingerprint, size};
  std::string text;
  for (const auto& [file, entry] : entries_) {
    text += entry.fingerprint + " " + std::to_string(entry.size) + " " + file + "\n";
  }
  const fs::path partial = folder_ / (kFileName + std::string(".partial"));
  WriteFile(partial, text);
  fs::rename(partial, folder_ / kFileName, error);
  if (error) throw WriteError(folder_ / kFileName, error.value());
}

}  // namespace hif8
