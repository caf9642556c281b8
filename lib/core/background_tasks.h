// Work that is done while its giver goes on.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace hif8 {

// A thread of its own runs the tasks one after the other, in the order in which they came.
class BackgroundTasks {
 public:
  BackgroundTasks() : thread_([this] { Run(); }) {}
  // Waits for the task at work; those behind it are dropped.
  ~BackgroundTasks();
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;

  // Queues a task; not after Finish(). Once a task has thrown, no other is run.
  void Add(std::function<void()> task);
  // Waits until all are done; rethrows what one of them threw.
  void Finish();

 private:
  void Run();
  void End(bool drop);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::exception_ptr error_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace hif8
