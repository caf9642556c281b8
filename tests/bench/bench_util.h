// Timing for the benchmarks: alternatives are run in turns, so that noise meets all of them, and
// the median of each counts.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace hif8 {

struct Contender {
  std::string name;
  std::function<void()> run;
  double seconds = 0;  // the median, set by RunInTurns
};

inline void RunInTurns(std::vector<Contender>& contenders, int rounds) {
  std::vector<std::vector<double>> times(contenders.size());
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    for (size_t i = 0; i < contenders.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      contenders[i].run();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      if (round >= 0) times[i].push_back(taken.count());
    }
  }
  for (size_t i = 0; i < contenders.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    contenders[i].seconds = times[i][times[i].size() / 2];
  }
}

// Keeps the compiler from dropping a computation whose result nobody reads.
template <typename T>
void Keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

}  // namespace hif8
