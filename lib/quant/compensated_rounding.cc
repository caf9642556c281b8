#include "lib/quant/compensated_rounding.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/parallel.h"

namespace hif8 {
namespace {

using Matrix = Eigen::MatrixXd;  // column-major: a column holds one input of all rows of a tile
using Index = Eigen::Index;

// Rows that are rounded together: enough for each line of a large matrix to be used often, few
// enough for their values to stay in the cache.
constexpr size_t kRows = 64;
// Inputs whose corrections are applied one by one; those of earlier ones come as a product.
constexpr Index kBlock = 64;

// The inputs in falling order of their moments; equal ones keep their order.
std::vector<Index> OrderOf(const Eigen::Map<const Matrix>& moments) {
  std::vector<Index> order(static_cast<size_t>(moments.rows()));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return moments(a, a) > moments(b, b); });
  return order;
}

// Damped moments in the order of rounding, and what they make of the errors of earlier inputs.
struct Problem {
  std::vector<Index> order;
  std::vector<bool> dead;  // inputs that are always zero, in that order
  Matrix moments;
  // feedback(i, k), i < k: the share of the error of input i that is added to input k.
  Matrix feedback;
};

Problem MakeProblem(const SecondMoments& moments) {
  const auto n = static_cast<Index>(moments.inputs);
  const Eigen::Map<const Matrix> given(moments.values.data(), n, n);
  if (!given.allFinite()) {
    throw ModelError("the second moments of a layer's inputs are not finite",
                     "keep the layer, or round it to nearest");
  }
  Problem problem;
  problem.order = OrderOf(given);
  problem.moments.resize(n, n);
  for (Index k = 0; k < n; ++k) {
    for (Index i = 0; i < n; ++i) {
      problem.moments(i, k) =
          given(problem.order[static_cast<size_t>(i)], problem.order[static_cast<size_t>(k)]);
    }
  }
  const double damping = DampingOf(moments) * given.diagonal().mean();
  for (Index k = 0; k < n; ++k) {
    problem.dead.push_back(problem.moments(k, k) == 0);
    problem.moments(k, k) = problem.dead.back() ? 1 : problem.moments(k, k) + damping;
  }
  // H = R Rᵀ with R upper triangular: the usual factor of the matrix turned by half a circle. The
  // feedback is R with columns divided by their diagonal.
  problem.feedback = problem.moments.reverse();
  const Eigen::LLT<Eigen::Ref<Matrix>> factor(problem.feedback);  // in its place
  if (factor.info() != Eigen::Success) {
    throw ModelError("the second moments of a layer's inputs have no Cholesky factor",
                     "give more calibration data, or round the layer to nearest");
  }
  problem.feedback.reverseInPlace();
  for (Index k = 0; k < n; ++k) problem.feedback.col(k) /= problem.feedback(k, k);
  return problem;
}

// Rounds some rows of a weight.
class RowTile {
 public:
  RowTile(const NumberFormat& format, const MatrixWeight& weight, const Problem& problem,
          size_t first)
      : format_(format),
        weight_(weight),
        problem_(problem),
        table_(format.DecodeTable()),
        first_(first),
        rows_(std::min(kRows, weight.rows - first)),
        inputs_(static_cast<Index>(weight.inputs)),
        original_(rows_, inputs_),
        error_(rows_, inputs_),
        codes_(rows_ * weight.inputs),
        wanted_(rows_),
        scales_(rows_) {
    for (Index k = 0; k < inputs_; ++k) {
      const auto column = static_cast<size_t>(problem.order[static_cast<size_t>(k)]);
      for (size_t r = 0; r < rows_; ++r) {
        original_(static_cast<Index>(r), k) = weight.values[(first + r) * weight.inputs + column];
      }
    }
  }

  // From the first input to the last one, each makes up for the errors of those before it.
  void RoundInOrder() {
    for (Index begin = 0; begin < inputs_; begin += kBlock) {
      const Index end = std::min(inputs_, begin + kBlock);
      Matrix wanted = original_.middleCols(begin, end - begin);
      if (begin > 0) {
        wanted.noalias() +=
            error_.leftCols(begin) * problem_.feedback.block(0, begin, begin, end - begin);
      }
      for (Index k = begin; k < end; ++k) {
        auto target = wanted.col(k - begin);
        for (Index i = begin; i < k; ++i) {
          target += problem_.feedback(i, k) * error_.col(i);
        }
        if (problem_.dead[static_cast<size_t>(k)]) target = original_.col(k);
        Round(k, target);
        error_.col(k) = original_.col(k) - values_;
      }
    }
  }

  // Moves one input after the other to where the outputs' error is least, as far as that helps.
  void Descend() {
    // Half the gradient of the error by the rounded values, negated.
    Matrix gradient = error_ * problem_.moments;
    Matrix moved(static_cast<Index>(rows_), kBlock);
    for (Index begin = 0; begin < inputs_; begin += kBlock) {
      const Index count = std::min(kBlock, inputs_ - begin);
      for (Index k = begin; k < begin + count; ++k) {
        auto move = moved.col(k - begin);
        move.setZero();
        if (!problem_.dead[static_cast<size_t>(k)]) Move(k, gradient.col(k), move);
        for (Index i = k + 1; i < begin + count; ++i) {
          gradient.col(i) -= problem_.moments(k, i) * move;
        }
      }
      const Index rest = inputs_ - begin - count;
      if (rest > 0) {
        gradient.rightCols(rest).noalias() -=
            moved.leftCols(count) * problem_.moments.block(begin, begin + count, count, rest);
      }
    }
  }

  void StoreCodes(std::vector<uint8_t>* codes) const {
    for (Index k = 0; k < inputs_; ++k) {
      const auto column = static_cast<size_t>(problem_.order[static_cast<size_t>(k)]);
      for (size_t r = 0; r < rows_; ++r) {
        (*codes)[(first_ + r) * weight_.inputs + column] =
            codes_[static_cast<size_t>(k) * rows_ + r];
      }
    }
  }

 private:
  using Column = Eigen::Ref<const Eigen::VectorXd>;

  // Rounds the rows' values of input k: codes to codes_, what they stand for to values_.
  void Round(Index k, const Column& wanted) {
    const size_t tiles = (weight_.inputs + weight_.tile.inputs - 1) / weight_.tile.inputs;
    const auto column = static_cast<size_t>(problem_.order[static_cast<size_t>(k)]);
    for (size_t r = 0; r < rows_; ++r) {
      wanted_[r] = static_cast<float>(wanted(static_cast<Index>(r)));
      scales_[r] =
          weight_.scales[(first_ + r) / weight_.tile.rows * tiles + column / weight_.tile.inputs];
    }
    const std::span<uint8_t> codes(codes_.data() + static_cast<size_t>(k) * rows_, rows_);
    format_.Encode(DType::kF32, reinterpret_cast<const std::byte*>(wanted_.data()),
                   {scales_.data(), true}, codes);
    values_.resize(static_cast<Index>(rows_));
    for (size_t r = 0; r < rows_; ++r) {
      values_(static_cast<Index>(r)) = table_[codes[r]] * scales_[r];
    }
  }

  // Sets move to what each row's value of input k changes by.
  void Move(Index k, const Column& gradient, Eigen::Ref<Eigen::VectorXd> move) {
    const std::vector<uint8_t> before(codes_.begin() + k * static_cast<Index>(rows_),
                                      codes_.begin() + (k + 1) * static_cast<Index>(rows_));
    const double curvature = problem_.moments(k, k);
    const Eigen::VectorXd now = original_.col(k) - error_.col(k);
    Round(k, now + gradient / curvature);
    for (Index r = 0; r < static_cast<Index>(rows_); ++r) {
      const double by = values_(r) - now(r);
      if (by * (by * curvature - 2 * gradient(r)) < 0) {
        move(r) = by;
        error_(r, k) -= by;
      } else {
        codes_[static_cast<size_t>(k) * rows_ + static_cast<size_t>(r)] =
            before[static_cast<size_t>(r)];
      }
    }
  }

  const NumberFormat& format_;
  const MatrixWeight& weight_;
  const Problem& problem_;
  std::span<const float> table_;
  size_t first_, rows_;
  Index inputs_;
  Matrix original_, error_;     // [rows, inputs] in the order of rounding
  std::vector<uint8_t> codes_;  // by input
  std::vector<float> wanted_, scales_;
  Eigen::VectorXd values_;
};

}  // namespace

double DampingOf(const SecondMoments& moments) {
  constexpr double kLeast = 0.1;
  constexpr double kMost = 3;
  if (moments.rows == 0) return kMost;
  const double few = static_cast<double>(moments.inputs) / (4 * static_cast<double>(moments.rows));
  return std::clamp(few, kLeast, kMost);
}

bool TooFewRows(const SecondMoments& moments) { return moments.rows < (moments.inputs + 7) / 8; }

std::vector<uint8_t> RoundCompensated(const NumberFormat& format, const MatrixWeight& weight,
                                      const SecondMoments& moments, int passes) {
  std::vector<uint8_t> codes(weight.rows * weight.inputs);
  if (codes.empty()) return codes;
  const Problem problem = MakeProblem(moments);
  ParallelFor((weight.rows + kRows - 1) / kRows, [&](size_t i) {
    RowTile tile(format, weight, problem, i * kRows);
    tile.RoundInOrder();
    for (int pass = 0; pass < passes; ++pass) tile.Descend();
    tile.StoreCodes(&codes);
  });
  return codes;
}

}  // namespace hif8
