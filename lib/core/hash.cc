#include "lib/core/hash.h"

#include <xxhash.h>

#include <array>
#include <cstdio>
#include <new>

namespace hif8 {

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  if (state_->xxh == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_->xxh);
}
Hasher::~Hasher() = default;

void Hasher::Update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}
void Hasher::Update(std::string_view text) { Update(std::as_bytes(std::span(text))); }

std::string Hasher::Hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text.data();
}

}  // namespace hif8
