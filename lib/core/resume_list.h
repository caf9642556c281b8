// Which files of an unfinished output folder are complete, so that an interrupted run goes on where
// it stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace hif8 {

// Kept in a file of the folder itself, one line per finished file; the file is written anew, whole,
// for every addition. OutputDir::Commit() removes it.
class ResumeList {
 public:
  static constexpr const char* kFileName = ".finished-files";

  // Reads the list of `folder`, if there is one. Files that it does not vouch for (unfinished, of
  // another size, or not listed at all) are deleted, sub-folders too.
  explicit ResumeList(std::filesystem::path folder);

  // True when `name` was finished by a run with the same fingerprint (any text without blanks).
  bool IsFinished(const std::string& name, const std::string& fingerprint) const;
  // `name` is complete and synced. Throws kEnvironment when that cannot be recorded.
  void Add(const std::string& name, const std::string& fingerprint);

 private:
  struct Entry {
    std::string fingerprint;
    uint64_t size = 0;
  };
  std::filesystem::path folder_;
  std::map<std::string, Entry> entries_;
};

}  // namespace hif8
