// What all fuzz targets share. A target defines LLVMFuzzerTestOneInput and calls RunFuzzed once in
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/mutate.h"

namespace hif8 {

// Calls `read`, which may throw hif8::Error for what it cannot take. Anything else that it throws,
// and an error that says less than a user needs (no message, no hint) or calls itself a bug, ends
// the process as a finding.
void RunFuzzed(const std::function<void()>& read);

// Returns a directory in memory that is this process's alone, made at the first call and removed
// when the process ends.
const std::filesystem::path& FuzzDir();

// Writes a file below FuzzDir() and returns its path; directories of `name` are made.
std::filesystem::path WriteFuzzFile(const std::string& name, std::string_view bytes);
// Makes the folder FuzzDir()/files hold these files and no others, and returns its path. Files of
// the same name, or of one that cannot be, are left out.
std::filesystem::path WriteFuzzFiles(std::span<const InputFile> files);

// Ends the process as a finding unless `holds`; `what` says what should have been.
void Require(bool holds, const char* what);

inline std::string_view AsText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace hif8
