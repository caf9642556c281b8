// Likelihoods and predictions of tokens from logits that come in pieces of the vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hif8 {

// One sequence: logits of position t predict token t + 1.
class TokenScores {
 public:
  // `rows`: positions that there are logits of. Without ids (an image) there is nothing to predict.
  TokenScores(std::vector<int64_t> ids, size_t rows);

  // Logits of vocabulary entries [first, first + width) at all positions, [rows, width].
  void Add(std::span<const float> logits, int64_t first, int64_t width);

  // Sum over all tokens but the first of -log p(token), and how many these are.
  double NegativeLogLikelihood() const;
  uint64_t predicted() const { return ids_.empty() ? 0 : ids_.size() - 1; }
  // Returns the likeliest next token at every position (the lowest id among equals).
  std::vector<int64_t> Predictions() const;

 private:
  struct Position {
    double sum = 0;  // of exp(logit - largest)
    float largest = 0;
    float label = 0;  // logit of the token that follows
    int64_t best = -1;
  };
  std::vector<int64_t> ids_;
  std::vector<Position> positions_;
};

// Returns that of all sequences together; 0 when no token was predicted.
double Perplexity(std::span<const TokenScores> scores);

}  // namespace hif8
