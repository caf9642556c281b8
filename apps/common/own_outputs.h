// Files that a program writes must be no files that it reads.
#pragma once

#include <filesystem>

#include "apps/common/parse.h"

namespace hif8::cli {

// Returns true when both paths are one existing file or folder, whatever links or mounts lead
// there.
bool IsSame(const std::filesystem::path& a, const std::filesystem::path& b);

// Returns true when `path` is `folder` or lies below it, links and mounts resolved. Neither need
// exist.
bool IsWithin(const std::filesystem::path& path, const std::filesystem::path& folder);

// Throws kUsage when a file that the program writes (--log-file, --stats-out, --output) is one that
// another option names, lies in a folder that is read, as a file of it, or lies in the folder that
// --output replaces.
void RequireOwnOutputs(const ProgramSpec& spec, const ParsedOptions& options);

}  // namespace hif8::cli
