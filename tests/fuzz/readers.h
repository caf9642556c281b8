// Files that are made of inputs, and what reads a whole model of them.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lib/core/tensor.h"
#include "lib/numeric/tensor_stats.h"
#include "tests/fuzz/mutate.h"

namespace hif8 {

// A safetensors file with this header and as many bytes of data as it speaks of (at most 256 KiB).
std::string SafetensorsBytes(std::string_view header);
// A zip archive with these members, stored without compression.
std::string ZipBytes(std::span<const InputFile> members);

// Reads every byte of a tensor, so that the address sanitizer sees those that are not there.
void Touch(const TensorView& view);
// Asks a record for all that scale rules and reports want of it.
void UseStats(const TensorStats& stats);

// Opens a checkpoint, plans with the built-in recipe and writes the new config.json; where the
// tensors are connected, their graphs are made.
void ReadCheckpoint(const std::filesystem::path& path);
// Opens a model as it is stored, reads every tensor and compares the model with itself.
void ReadStored(const std::filesystem::path& path);

}  // namespace hif8
