#include "lib/core/background_tasks.h"

#include <utility>

namespace hif8 {

BackgroundTasks::~BackgroundTasks() { End(true); }

void BackgroundTasks::Add(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void BackgroundTasks::Finish() {
  End(false);
  if (error_) std::rethrow_exception(error_);
}

void BackgroundTasks::End(bool drop) {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    if (drop) tasks_.clear();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void BackgroundTasks::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ended_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    if (error_) continue;
    lock.unlock();
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
  }
}

}  // namespace hif8
