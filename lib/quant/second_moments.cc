#include "lib/quant/second_moments.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "lib/core/parallel.h"

namespace hif8 {
namespace {

// Rows that are multiplied together.
constexpr size_t kRows = 256;
// Inputs of one product.
constexpr size_t kPiece = 128;

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

MomentSums::MomentSums(size_t inputs, size_t block)
    : inputs_(inputs),
      block_(std::max<size_t>(1, std::min(inputs, block))),
      sums_(inputs_ * block_) {}

void MomentSums::Add(std::span<const float> rows) {
  const size_t count = inputs_ == 0 ? 0 : rows.size() / inputs_;
  RowMajor x(static_cast<Eigen::Index>(std::min(count, kRows)), static_cast<Eigen::Index>(inputs_));
  for (size_t at = 0; at < count;) {
    size_t held = 0;
    for (; at < count && held < kRows; ++at) {
      const std::span<const float> row = rows.subspan(at * inputs_, inputs_);
      if (!std::all_of(row.begin(), row.end(), [](float v) { return std::isfinite(v); })) continue;
      std::copy(row.begin(), row.end(), x.row(static_cast<Eigen::Index>(held)).data());
      ++held;
    }
    rows_ += held;
    const auto used = x.topRows(static_cast<Eigen::Index>(held));
    ParallelFor((inputs_ + kPiece - 1) / kPiece, [&](size_t piece) {
      // From each input on to the end of its block.
      for (size_t i = piece * kPiece; i < std::min(inputs_, (piece + 1) * kPiece);) {
        const size_t begin = i / block_ * block_;
        const size_t end = std::min(inputs_, begin + block_);
        const size_t stop = std::min({inputs_, (piece + 1) * kPiece, end});
        const auto n = static_cast<Eigen::Index>(stop - i);
        const auto width = static_cast<Eigen::Index>(end - i);
        Eigen::Map<RowMajor, 0, Eigen::OuterStride<>> sums(
            sums_.data() + i * block_ + (i - begin), n, width,
            Eigen::OuterStride<>(static_cast<Eigen::Index>(block_)));
        sums.noalias() += used.middleCols(static_cast<Eigen::Index>(i), n).transpose() *
                          used.middleCols(static_cast<Eigen::Index>(i), width);
        i = stop;
      }
    });
  }
}

SecondMoments MomentSums::Block(size_t index) const {
  const size_t begin = index * block_;
  const size_t n = std::min(block_, inputs_ - begin);
  SecondMoments moments{std::vector<double>(n * n), n, rows_};
  const double share = rows_ == 0 ? 0 : 1 / static_cast<double>(rows_);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = i; k < n; ++k) {
      const double mean = sums_[(begin + i) * block_ + k] * share;
      moments.values[i * n + k] = mean;
      moments.values[k * n + i] = mean;
    }
  }
  return moments;
}

uint64_t MomentSums::Bytes(size_t inputs, size_t block) {
  return uint64_t{inputs} * std::min(inputs, block) * sizeof(double);
}

}  // namespace hif8
