// Content hashes for fingerprints (XXH3, 128 bits; not cryptographic).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hif8 {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text);
  // 32 lower-case hexadecimal digits of everything so far.
  std::string Hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hif8
