// Encodes weights ahead of the thread that writes them. Internal to this module.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/model/model.h"

namespace hif8 {

// One thread runs `encode` (itself parallel) over `weights` in order; the results wait in a queue
// that holds at most `max_bytes` of codes, the one being written and the one being made included
// (but always at least one weight).
class EncodeAhead {
 public:
  struct Item {
    int weight;
    uint64_t bytes;  // of its codes
  };

  EncodeAhead(std::vector<Item> weights, std::function<EncodedWeight(int)> encode,
              uint64_t max_bytes);
  // Stops after the weight at work.
  ~EncodeAhead();
  EncodeAhead(const EncodeAhead&) = delete;
  EncodeAhead& operator=(const EncodeAhead&) = delete;

  // Returns the next weight of the list; rethrows what `encode` threw. The result of the call
  // before counts as released from now on.
  EncodedWeight Take();

 private:
  void Run();

  std::vector<Item> weights_;
  std::function<EncodedWeight(int)> encode_;
  uint64_t max_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<EncodedWeight> ready_;
  std::exception_ptr error_;
  uint64_t held_ = 0;   // bytes made or being made, and not released
  uint64_t taken_ = 0;  // of them, the one that Take() gave last
  size_t next_ = 0;     // index of the weight that Take() gives next
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace hif8
