// How much memory a run may take of its own: resident anonymous memory, to which files that are
// mapped do not count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hif8 {

// One setting for the process. 0, the default: half of what the machine, or the control group that
// the process is in, has.
void SetMemoryLimit(uint64_t bytes);
uint64_t MemoryLimit();

// Estimates what the program and the engine take before any weight is there, in bytes.
inline constexpr uint64_t kProgramMemory = uint64_t{64} << 20;

// Throws kEnvironment when `bytes`, beside kProgramMemory, are more than `limit`. `what` needs them
// ("tensor 'x'"), `why` says how they come about.
void RequireMemory(uint64_t bytes, uint64_t limit, const std::string& what, const std::string& why);
// Throws kEnvironment when the process has more than MemoryLimit() now. For what cannot be computed
// beforehand; `during` says what has run ("sample 3").
void CheckOwnMemory(const std::string& during);
// Returns 0 where the system does not say.
uint64_t OwnMemory();

// Returns "512 B", "1.5 GiB"
std::string SizeText(uint64_t bytes);
// "512M", "1.5G", "2GiB", "1000": K, M, G and T stand for powers of 1024. Nothing for other text
// and for 0.
std::optional<uint64_t> ParseSize(std::string_view text);

}  // namespace hif8
