// Runs a piece of a test once for every instruction set that this machine and this build have.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <vector>

namespace hif8 {

// Sets of targets for which dispatch takes another one each time, the plainest included.
inline std::vector<int64_t> TargetSets() {
  std::vector<int64_t> sets;
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) sets.push_back(left);
  return sets;
}

template <typename Body>
void ForEachTarget(const Body& body) {
  const std::vector<int64_t> sets = TargetSets();
  for (const int64_t set : sets) {
    hwy::SetSupportedTargetsForTest(set);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(set & -set));
    body();
    if (testing::Test::HasFatalFailure()) break;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace hif8
