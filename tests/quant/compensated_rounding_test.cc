#include "lib/quant/compensated_rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/core/parallel.h"

namespace hif8 {
namespace {

using Rows = std::vector<std::vector<double>>;

// A layer with correlated inputs, some of them always zero.
struct Case {
  size_t rows, inputs, samples;
  TileScales::Tile tile;
  std::vector<float> weight;
  std::vector<float> scales;
  SecondMoments moments;

  MatrixWeight matrix() const { return {weight, rows, inputs, scales, tile}; }
  float scale(size_t r, size_t c) const {
    return scales[r / tile.rows * ((inputs + tile.inputs - 1) / tile.inputs) + c / tile.inputs];
  }
};

Case MakeCase(size_t rows, size_t inputs, size_t samples, TileScales::Tile tile, size_t dead) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  Case c{rows, inputs, samples, tile, {}, {}, {}};
  for (size_t i = 0; i < rows * inputs; ++i) c.weight.push_back(static_cast<float>(normal(random)));
  const size_t tiles = (inputs + tile.inputs - 1) / tile.inputs;
  c.scales.resize((rows + tile.rows - 1) / tile.rows * tiles);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t k = 0; k < inputs; ++k) {
      float& scale = c.scales[r / tile.rows * tiles + k / tile.inputs];
      scale = std::max(scale, std::fabs(c.weight[r * inputs + k]) / 16);
    }
  }
  c.moments = {std::vector<double>(inputs * inputs), inputs, samples};
  std::vector<double> x(inputs);
  for (size_t s = 0; s < samples; ++s) {
    double last = 0;
    for (size_t k = 0; k < inputs; ++k) {
      last = 0.7 * last + normal(random);
      x[k] = k % 5 == 3 && k / 5 < dead ? 0 : last * (1 + static_cast<double>(k % 7));
    }
    for (size_t i = 0; i < inputs * inputs; ++i) {
      c.moments.values[i] += x[i / inputs] * x[i % inputs] / static_cast<double>(samples);
    }
  }
  return c;
}

// GPTQ as its paper writes it, a row and an input at a time: with the inverse of the moments, of
// which each rounded input is eliminated.
class Reference {
 public:
  Reference(const NumberFormat& format, const Case& c, double damping) : format_(format), c_(c) {
    const size_t n = c.inputs;
    order_.resize(n);
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return c.moments.values[a * n + a] > c.moments.values[b * n + b];
    });
    double mean = 0;
    for (size_t i = 0; i < n; ++i) mean += c.moments.values[i * n + i] / static_cast<double>(n);
    h_.assign(n, std::vector<double>(n));
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < n; ++k) h_[i][k] = c.moments.values[order_[i] * n + order_[k]];
      dead_.push_back(h_[i][i] == 0);
      h_[i][i] = dead_[i] ? 1 : h_[i][i] + damping * mean;
    }
  }

  std::vector<uint8_t> Round(int passes) {
    std::vector<uint8_t> codes(c_.rows * c_.inputs);
    for (size_t r = 0; r < c_.rows; ++r) {
      std::vector<uint8_t> row = Gptq(r);
      for (int pass = 0; pass < passes; ++pass) Descend(r, &row);
      for (size_t k = 0; k < row.size(); ++k) codes[r * c_.inputs + order_[k]] = row[k];
    }
    return codes;
  }

  double Error(const std::vector<uint8_t>& codes) const {
    double sum = 0;
    for (size_t r = 0; r < c_.rows; ++r) {
      std::vector<double> e(c_.inputs);
      for (size_t k = 0; k < e.size(); ++k) {
        const size_t at = r * c_.inputs + order_[k];
        e[k] = c_.weight[at] - Value(r, k, codes[at]);
      }
      for (size_t i = 0; i < e.size(); ++i) {
        for (size_t k = 0; k < e.size(); ++k) sum += e[i] * h_[i][k] * e[k];
      }
    }
    return sum;
  }

  std::vector<uint8_t> Nearest() const {
    std::vector<uint8_t> codes(c_.rows * c_.inputs);
    for (size_t r = 0; r < c_.rows; ++r) {
      for (size_t k = 0; k < c_.inputs; ++k) {
        codes[r * c_.inputs + order_[k]] = Code(r, k, c_.weight[r * c_.inputs + order_[k]]);
      }
    }
    return codes;
  }

 private:
  uint8_t Code(size_t r, size_t k, double x) const {
    return format_.EncodeOne(static_cast<float>(x) / c_.scale(r, order_[k]), Overflow::kSaturate);
  }
  double Value(size_t r, size_t k, uint8_t code) const {
    return format_.DecodeTable()[code] * c_.scale(r, order_[k]);
  }

  // The inverse of a matrix, by Gauss and Jordan.
  static Rows Inverse(Rows a) {
    const size_t n = a.size();
    Rows inverse(n, std::vector<double>(n));
    for (size_t i = 0; i < n; ++i) inverse[i][i] = 1;
    for (size_t p = 0; p < n; ++p) {
      size_t best = p;
      for (size_t i = p; i < n; ++i) {
        if (std::fabs(a[i][p]) > std::fabs(a[best][p])) best = i;
      }
      std::swap(a[p], a[best]);
      std::swap(inverse[p], inverse[best]);
      const double pivot = a[p][p];
      for (size_t k = 0; k < n; ++k) {
        a[p][k] /= pivot;
        inverse[p][k] /= pivot;
      }
      for (size_t i = 0; i < n; ++i) {
        if (i == p) continue;
        const double factor = a[i][p];
        for (size_t k = 0; k < n; ++k) {
          a[i][k] -= factor * a[p][k];
          inverse[i][k] -= factor * inverse[p][k];
        }
      }
    }
    return inverse;
  }

  std::vector<uint8_t> Gptq(size_t r) const {
    const size_t n = c_.inputs;
    Rows inverse = Inverse(h_);
    std::vector<double> w(n);
    for (size_t k = 0; k < n; ++k) w[k] = c_.weight[r * n + order_[k]];
    std::vector<uint8_t> codes(n);
    for (size_t k = 0; k < n; ++k) {
      codes[k] = Code(r, k, w[k]);
      const double error = (w[k] - Value(r, k, codes[k])) / inverse[k][k];
      for (size_t i = k + 1; i < n; ++i) w[i] -= error * inverse[k][i];
      const std::vector<double> row = inverse[k];
      for (size_t i = k + 1; i < n; ++i) {
        for (size_t j = k + 1; j < n; ++j) inverse[i][j] -= row[i] * row[j] / row[k];
      }
    }
    return codes;
  }

  void Descend(size_t r, std::vector<uint8_t>* codes) const {
    const size_t n = c_.inputs;
    for (size_t k = 0; k < n; ++k) {
      if (dead_[k]) continue;
      double gradient = 0;
      for (size_t i = 0; i < n; ++i) {
        gradient += h_[k][i] * (c_.weight[r * n + order_[i]] - Value(r, i, (*codes)[i]));
      }
      const double now = Value(r, k, (*codes)[k]);
      const uint8_t code = Code(r, k, now + gradient / h_[k][k]);
      const double by = Value(r, k, code) - now;
      if (by * by * h_[k][k] - 2 * by * gradient < 0) (*codes)[k] = code;
    }
  }

  const NumberFormat& format_;
  const Case& c_;
  std::vector<size_t> order_;
  std::vector<bool> dead_;
  Rows h_;
};

TEST(CompensatedRounding, CodesAreThoseOfThePlainAlgorithm) {
  for (const char* const name : {"hif8", "fp8_e4m3", "mxfp4"}) {
    const NumberFormat& format = BuiltinFormats().Get(name);
    for (const Case& c : {MakeCase(5, 37, 300, {1, 37}, 0), MakeCase(70, 96, 400, {1, 32}, 3),
                          MakeCase(33, 130, 20, {16, 64}, 2)}) {
      for (const int passes : {0, 1, 2}) {
        SCOPED_TRACE(std::string(name) + " " + std::to_string(c.inputs) + " inputs, passes " +
                     std::to_string(passes));
        const std::vector<uint8_t> codes = RoundCompensated(format, c.matrix(), c.moments, passes);
        EXPECT_EQ(codes, Reference(format, c, DampingOf(c.moments)).Round(passes));
      }
    }
  }
}

TEST(CompensatedRounding, MakesTheErrorOfOutputsSmaller) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  const Case c = MakeCase(40, 64, 512, {1, 64}, 0);
  Reference reference(format, c, DampingOf(c.moments));
  double error = reference.Error(reference.Nearest());
  for (const int passes : {0, 1, 2}) {
    const double next = reference.Error(RoundCompensated(format, c.matrix(), c.moments, passes));
    EXPECT_LT(next, error) << passes;
    error = next;
  }
}

TEST(CompensatedRounding, TheSameForAnyNumberOfThreads) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  const Case c = MakeCase(300, 100, 300, {1, 100}, 1);
  SetThreads(1);
  const std::vector<uint8_t> one = RoundCompensated(format, c.matrix(), c.moments);
  SetThreads(5);
  EXPECT_EQ(RoundCompensated(format, c.matrix(), c.moments), one);
  SetThreads(0);
}

TEST(CompensatedRounding, UncorrelatedInputsAreRoundedToNearest) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  Case c = MakeCase(9, 20, 100, {1, 20}, 0);
  for (size_t i = 0; i < c.moments.values.size(); ++i) {
    if (i % 21 != 0) c.moments.values[i] = 0;
  }
  EXPECT_EQ(RoundCompensated(format, c.matrix(), c.moments), Reference(format, c, 0).Nearest());
}

TEST(CompensatedRounding, DampingGrowsWithFewRows) {
  const auto moments = [](size_t inputs, uint64_t rows) { return SecondMoments{{}, inputs, rows}; };
  EXPECT_DOUBLE_EQ(DampingOf(moments(100, 1000)), 0.1);
  EXPECT_DOUBLE_EQ(DampingOf(moments(100, 250)), 0.1);
  EXPECT_DOUBLE_EQ(DampingOf(moments(100, 50)), 0.5);
  EXPECT_DOUBLE_EQ(DampingOf(moments(100, 0)), 3);
  EXPECT_FALSE(TooFewRows(moments(100, 13)));
  EXPECT_TRUE(TooFewRows(moments(100, 12)));
}

TEST(CompensatedRounding, MomentsThatAreNotFiniteAreAnError) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  Case c = MakeCase(2, 4, 10, {1, 4}, 0);
  c.moments.values[5] = std::nan("");
  EXPECT_THROW(RoundCompensated(format, c.matrix(), c.moments), Error);
}

}  // namespace
}  // namespace hif8
