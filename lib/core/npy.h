// Arrays in NumPy's .npy format, versions 1 to 3 (NEP 1): the magic "\x93NUMPY", a version, the
// header's length and a Python dictionary literal with exactly the keys 'descr', 'fortran_order'
// and 'shape', then the elements.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "lib/core/tensor.h"

namespace hif8 {

// The longest header that is accepted, magic and length field included.
inline constexpr size_t kMaxNpyHeader = (1 << 16) + 12;

struct NpyHeader {
  DType dtype = DType::kF32;
  Shape shape;
  size_t data_offset = 0;   // where the elements begin
  uint64_t data_bytes = 0;  // how many bytes they have
  bool big_endian = false;
  bool fortran_order = false;  // the first dimension varies fastest

  bool usual() const { return !big_endian && !fortran_order; }
};

// The header of an array of which at least min(kMaxNpyHeader, all) bytes are in `begin`: for
// readers that do not have it in memory. Throws as ParseNpy does, but for the length of the data.
NpyHeader ParseNpyHeader(std::span<const std::byte> begin, const std::string& where);

// Copies all elements of an array, data_bytes from `stored` on, little-endian and in C order.
void CopyInUsualOrder(const NpyHeader& header, const std::byte* stored, std::byte* to);
// Exchanges the bytes of each of `n` elements.
void SwapBytes(DType dtype, size_t n, std::byte* data);

// Reads one array that lies in memory. The tensor points into `bytes`, which `owner` keeps alive,
// or holds a copy in the usual order; its data may be unaligned. `where` (a file, an archive's
// member) goes into errors. Refused with kModel: what is no .npy array, elements that are
// structured, complex or of Python objects, and data that is shorter or longer than the shape says.
Tensor ParseNpy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                const std::string& where);

// Returns the array of a .npy file; mapped, not copied, where it is in the usual order.
Tensor ReadNpy(const std::filesystem::path& path);

}  // namespace hif8
