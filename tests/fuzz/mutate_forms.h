// The mutations of single forms. Internal to the mutator.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace hif8 {

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  // A number of [0, n), n > 0.
  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  bool OneIn(size_t n) { return Below(n) == 0; }

 private:
  std::minstd_rand random_;
};

// Changes some bytes as libFuzzer does on its own; the result may be longer.
std::string MutateBytes(std::string bytes);

// Each returns the changed text. Json: as MutateBytes() where the text is no document.
std::string MutateJson(const std::string& text, Dice* dice);
std::string MutateLines(const std::string& text, Dice* dice);
std::string MutateProtobuf(const std::string& message, Dice* dice);

}  // namespace hif8
