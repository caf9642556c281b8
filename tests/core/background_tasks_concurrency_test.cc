// Tasks on a thread of their own: all of them, in order, and their errors where they are waited
// for.
#include "lib/core/background_tasks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace hif8 {
namespace {

TEST(BackgroundTasks, RunInOrderBesideTheirGiver) {
  std::vector<int> done;  // visible after Finish()
  BackgroundTasks tasks;
  std::promise<void> go;
  tasks.Add([&] { go.get_future().wait(); });
  for (int i = 0; i < 100; ++i) tasks.Add([&done, i] { done.push_back(i); });
  go.set_value();  // the giver was not held up
  tasks.Finish();
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
}

TEST(BackgroundTasks, AnErrorEndsThemAndComesOut) {
  int done = 0;
  BackgroundTasks tasks;
  tasks.Add([&] { ++done; });
  tasks.Add([] { throw std::runtime_error("no"); });
  tasks.Add([&] { ++done; });
  EXPECT_THROW(tasks.Finish(), std::runtime_error);
  EXPECT_EQ(done, 1);
}

TEST(BackgroundTasks, WhatIsNotWaitedForIsDropped) {
  std::promise<void> begun;
  int done = 0;
  {
    BackgroundTasks tasks;
    tasks.Add([&] {
      begun.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ++done;
    });
    for (int i = 0; i < 1000; ++i) tasks.Add([&] { ++done; });
    begun.get_future().wait();
  }
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace hif8
