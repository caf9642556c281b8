// Where paths lie to each other.
#pragma once

#include <filesystem>

namespace hif8 {

// True when `path` is `folder` or lies below it, links resolved. Neither need exist.
bool IsWithin(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace hif8
