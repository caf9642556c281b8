#include "lib/model/safetensors/encode_ahead.h"

#include <utility>

namespace hif8 {

EncodeAhead::EncodeAhead(std::vector<Item> weights, std::function<EncodedWeight(int)> encode,
                         uint64_t max_bytes)
    : weights_(std::move(weights)), encode_(std::move(encode)), max_bytes_(max_bytes) {
  thread_ = std::thread([this] { Run(); });
}

EncodeAhead::~EncodeAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EncodeAhead::Run() {
  for (const Item& item : weights_) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || held_ == 0 || held_ + item.bytes <= max_bytes_; });
      if (stop_) return;
      held_ += item.bytes;
    }
    EncodedWeight encoded;
    std::exception_ptr error;
    try {
      encoded = encode_(item.weight);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = error;
    if (!error) ready_.push_back(std::move(encoded));
    changed_.notify_all();
    if (error) return;
  }
}

EncodedWeight EncodeAhead::Take() {
  std::unique_lock lock(mutex_);
  held_ -= taken_;
  taken_ = weights_[next_++].bytes;
  changed_.notify_all();
  changed_.wait(lock, [&] { return error_ || !ready_.empty(); });
  if (ready_.empty()) std::rethrow_exception(error_);
  EncodedWeight encoded = std::move(ready_.front());
  ready_.pop_front();
  return encoded;
}

}  // namespace hif8
