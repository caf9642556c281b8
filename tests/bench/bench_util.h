// Timing for the benchmarks: alternatives are run in turns, so that noise meets all of them, and
// the median of each counts.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace hif8 {

struct Contender {
  std::string name;
  std::function<void()> run;
  double seconds = 0;  // the median, set by RunInTurns
};

// What other processes take from the machine counts as time on the wall, not as time of the thread;
// the latter is only right for contenders that run on the calling thread alone.
enum class Clock { kWall, kThread };

inline double Now(Clock clock) {
  timespec time{};
  clock_gettime(clock == Clock::kWall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// `rest` before each: threads of an engine go on spinning after a run, which the next one shall not
// pay for.
inline void RunInTurns(std::vector<Contender>& contenders, int rounds, Clock clock = Clock::kWall,
                       std::chrono::milliseconds rest = {}) {
  std::vector<std::vector<double>> times(contenders.size());
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    for (size_t i = 0; i < contenders.size(); ++i) {
      std::this_thread::sleep_for(rest);
      const double start = Now(clock);
      contenders[i].run();
      if (round >= 0) times[i].push_back(Now(clock) - start);
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
