// Small files that are read whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace hif8 {

// More bytes than any text that is read whole has: the index of a checkpoint with a million tensors
// takes a tenth of it.
inline constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;
// Limits what a person writes: recipes, config.json.
inline constexpr uint64_t kMaxSettingsBytes = uint64_t{64} << 20;

// Returns the file's content. Never waits and never reads without end: throws kModel when the file
// cannot be opened, is not a regular file (directory, pipe, device, a file of /proc), holds more
// than `limit` bytes, or changes its size meanwhile.
std::string ReadFile(const std::filesystem::path& path, uint64_t limit = kMaxTextBytes);

// Throws kModel when `text` is a pointer that Git LFS left in the place of a file.
void RequireNoLfsPointer(std::string_view text, const std::filesystem::path& path);

}  // namespace hif8
