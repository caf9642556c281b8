// A model's constant tensors as its files hold them, whoever wrote them: plain values, or codes of
// a number format with their scales. Unlike Model, which is what can be quantized, this is what is
// there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/model/graph.h"
#include "lib/numeric/block_scale.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

// A layer that a tensor is the weight of.
struct StoredLayer {
  std::string name;
  std::string op;
  int position = 0;  // rising in the model's order; files have their own
};

struct StoredTensor {
  std::string name;  // what it is called where it is not quantized
  // Other names that it may have there: of files whose names of codes are only like the original's.
  std::vector<std::string> also;
  bool parameter = true;             // else a constant that quantization does not concern
  Shape shape;                       // of its values
  DType dtype = DType::kF32;         // of what is stored: values or codes
  std::string format;                // the codes' number format; empty: the values themselves
  TileLayout tiles;                  // of codes: which of them share a scale
  bool turned = false;               // has the last two dimensions of what it was made of exchanged
  uint64_t bytes = 0;                // values, or codes and scales
  std::string unknown;               // why the values cannot be told, or empty
  std::optional<float> input_scale;  // static scale of its layers' input
  std::vector<StoredLayer> layers;

  size_t size() const { return ElementCount(shape); }
  bool HasValues() const { return unknown.empty(); }
};

class StoredModel {
 public:
  virtual ~StoredModel() = default;
  virtual std::string_view kind() const = 0;  // "onnx" or "safetensors"
  virtual const std::filesystem::path& path() const = 0;
  virtual uint64_t file_bytes() const = 0;
  // In the files' order; scales are part of their tensor.
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  // Reads values (integers that have scales but no format: what they stand for), or one code per
  // element. Mapped, not copied, where the file allows; valid as long as this object. Throws kModel
  // where it is damaged.
  virtual Tensor Read(size_t index) const = 0;
  // Reads one scale for each tile; empty where there are no codes.
  virtual std::vector<float> ReadScales(size_t index) const = 0;
  // Reads zero points of integers, in units of codes: one per tile, or empty where all are zero.
  virtual std::vector<float> ReadZeroPoints(size_t /*index*/) const { return {}; }
};

// Opens an ONNX file, a folder with model.onnx, a checkpoint's folder or a .safetensors file.
// Nothing but headers is read of a checkpoint. Weights that an ONNX file makes of its constants are
// tensors too where `evaluate` computes them. Throws kModel for anything else.
std::unique_ptr<StoredModel> OpenStoredModel(const std::filesystem::path& path,
                                             const FormatRegistry& formats,
                                             const ConstantEvaluator& evaluate = nullptr);

// Finds tiles by the shapes of codes and scales: one scale for everything, or dimension by
// dimension one scale for all, one for each, or one for as many elements as the first of `edges`
// says that gives that number of scales. False when the shapes do not fit together.
bool FindTiles(const Shape& codes, const Shape& scales, std::span<const int64_t> edges,
               TileLayout* tiles);
// Returns the edges of all tiles that the formats can have.
std::vector<int64_t> TileEdges(const FormatRegistry& formats);

// A tensor's values as fp32, or as stored where they are floats, run by run along its first
// dimension, so that memory does not grow with the tensor.
class TensorPieces {
 public:
  // `tensor` must have values. The model and the formats must outlive the object.
  TensorPieces(const StoredModel& model, size_t index, const FormatRegistry& formats);

  struct Piece {
    TensorView values;               // floats
    TileLayout tiles;                // of the piece; with codes
    std::span<const uint8_t> codes;  // empty: stored as floats
    std::span<const float> scales;   // of these tiles
    std::span<const float> zeros;    // zero points of these tiles; empty: none but 0
  };
  // Rows of the first dimension that may be cut apart: all tiles begin at a multiple of it.
  int64_t row_step() const { return row_step_; }
  int64_t rows() const { return rows_; }
  // Returns about four million values: a multiple of `step`, which is one of row_step().
  int64_t rows_per_piece(int64_t step) const;
  int64_t rows_per_piece() const { return rows_per_piece(row_step_); }
  // Rows [begin, end), begin a multiple of row_step(). Valid until the next call.
  const Piece& Read(int64_t begin, int64_t end);

 private:
  const StoredTensor& tensor_;
  const NumberFormat* format_ = nullptr;  // of codes
  Tensor stored_;
  std::vector<float> scales_, zeros_;
  int64_t rows_ = 1, row_step_ = 1;
  std::vector<float> decoded_;
  Piece piece_;
};

}  // namespace hif8
