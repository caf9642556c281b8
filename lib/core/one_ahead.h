// Values that are made one after the other, each while the one before is in use.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace hif8 {

// A thread of its own calls `make`; at most one value is made beyond the one that was taken last.
template <typename T>
class OneAhead {
 public:
  // `make` gives nothing after the last value.
  explicit OneAhead(std::function<std::optional<T>()> make)
      : make_(std::move(make)), thread_([this] { Run(); }) {}
  // Waits for the value at work.
  ~OneAhead() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  OneAhead(const OneAhead&) = delete;
  OneAhead& operator=(const OneAhead&) = delete;

  // Returns the next value, or nothing after the last one; rethrows what `make` threw instead of
  // it. Not to be called again after either.
  std::optional<T> Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_; });
    ready_ = false;
    changed_.notify_all();
    if (error_) std::rethrow_exception(error_);
    return std::exchange(value_, std::nullopt);
  }

 private:
  void Run() {
    for (bool more = true; more;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || !ready_; });
        if (stop_) return;
      }
      std::optional<T> value;
      std::exception_ptr error;
      try {
        value = make_();
      } catch (...) {
        error = std::current_exception();
      }
      more = value.has_value();
      const std::lock_guard lock(mutex_);
      value_ = std::move(value);
      error_ = error;
      ready_ = true;
      changed_.notify_all();
    }
  }

  std::function<std::optional<T>()> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<T> value_;
  std::exception_ptr error_;
  bool ready_ = false;  // a value waits, or an error, or the end
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace hif8
