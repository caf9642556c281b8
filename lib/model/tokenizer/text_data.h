// Token sequences to calibrate or evaluate a language model on, from files of text or of token ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace hif8 {

struct TextDataOptions {
  std::filesystem::path tokenizer_dir;  // the checkpoint; its tokenizer is loaded only for text
  size_t sequence_length = 512;         // of tokens, at least 2
  size_t samples = 0;                   // at most so many sequences, the first ones; 0: all
  size_t vocab_size = 0;                // ids must be below; 0: not checked
};

// Sequences of 2 to `sequence_length` ids, in the order of the file:
//   .txt    one document
//   .jsonl  an object per line, with `text` (a document) or `input_ids` (a sample); one kind per
//           file, and `input_ids` where a line has both. Empty lines are skipped.
//   .json   a list of such objects, or one
//   .gz     behind one of these: compressed by gzip; .zst: by zstd
//   .npy    integers [N, T] (N samples) or [T] (one)
// The tokenizer's post-processor is applied to each document; documents are joined. Samples of ids
// are not joined and may differ in length. Both are cut at `sequence_length`, and what is left
// below 2 tokens is dropped. Throws kModel naming file and line, or sample and position, for what
// cannot be read, ids outside the vocabulary, and data without any sequence.
std::vector<std::vector<int32_t>> LoadTokenSequences(const std::filesystem::path& path,
                                                     const TextDataOptions& options);

}  // namespace hif8
