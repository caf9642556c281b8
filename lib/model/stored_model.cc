#include "lib/model/stored_model.h"

#include <algorithm>
#include <utility>

#include "lib/core/error.h"
#include "lib/model/onnx/stored_onnx.h"
#include "lib/model/safetensors/stored_checkpoint.h"
#include "lib/numeric/zero_points.h"

namespace hif8 {

std::unique_ptr<StoredModel> OpenStoredModel(const std::filesystem::path& path,
                                             const FormatRegistry& formats,
                                             const ConstantEvaluator& evaluate) {
  namespace fs = std::filesystem;
  if (!fs::exists(path))
    throw ModelError("no such file or folder", "check the path", path.string());
  const bool folder = fs::is_directory(path);
  const bool onnx = folder ? fs::exists(path / "model.onnx") : path.extension() != ".safetensors";
  if (onnx) return OpenStoredOnnx(folder ? path / "model.onnx" : path, formats, evaluate);
  return OpenStoredCheckpoint(path, formats);
}

bool FindTiles(const Shape& codes, const Shape& scales, std::span<const int64_t> edges,
               TileLayout* tiles) {
  *tiles = TileLayout::PerTensor(codes);
  if (ElementCount(scales) == 1) return true;
  Shape shape = scales;
  if (shape.size() + 1 == codes.size()) shape.push_back(1);  // one for each row
  if (shape.size() != codes.size()) return false;
  for (size_t i = 0; i < codes.size(); ++i) {
    if (shape[i] == codes[i]) {
      tiles->tile[i] = 1;
    } else if (shape[i] != 1) {
      const auto fits = [&](int64_t edge) { return (codes[i] - 1) / edge + 1 == shape[i]; };
      const auto edge = std::ranges::find_if(edges, fits);
      if (edge == edges.end()) return false;
      tiles->tile[i] = *edge;
    }
  }
  return tiles->scale_shape() == shape;
}

std::vector<int64_t> TileEdges(const FormatRegistry& formats) {
  std::vector<int64_t> edges;
  for (const std::string& name : formats.names()) {
    for (const TileScales& tiles : formats.Get(name).storage().tiles) {
      for (const size_t edge : {tiles.weight.rows, tiles.weight.inputs}) {
        if (edge > 1) edges.push_back(static_cast<int64_t>(edge));
      }
    }
  }
  return edges;
}

TensorPieces::TensorPieces(const StoredModel& model, size_t index, const FormatRegistry& formats)
    : tensor_(model.tensors()[index]), stored_(model.Read(index)) {
  if (!tensor_.shape.empty()) rows_ = tensor_.shape[0];
  if (tensor_.format.empty()) return;
  format_ = &formats.Get(tensor_.format);
  scales_ = model.ReadScales(index);
  zeros_ = model.ReadZeroPoints(index);
  // A tile as high as the tensor can be cut anywhere: its parts have the same scale.
  const int64_t tile = tensor_.shape.empty() ? 1 : tensor_.tiles.tile[0];
  row_step_ = tile < rows_ ? tile : 1;
}

int64_t TensorPieces::rows_per_piece(int64_t step) const {
  constexpr int64_t kPieceValues = int64_t{1} << 22;
  const int64_t row =
      std::max<int64_t>(1, static_cast<int64_t>(tensor_.size()) / std::max<int64_t>(rows_, 1));
  return std::max<int64_t>(1, kPieceValues / row / step) * step;
}

const TensorPieces::Piece& TensorPieces::Read(int64_t begin, int64_t end) {
  Shape shape = tensor_.shape;
  if (!shape.empty()) shape[0] = end - begin;
  const size_t n = ElementCount(shape);
  const size_t row = n / static_cast<size_t>(std::max<int64_t>(end - begin, 1));
  const size_t first = static_cast<size_t>(begin) * row;
  if (format_ == nullptr) {
    const DType dtype = stored_.view.dtype;
    piece_.values = {dtype, shape, stored_.view.data + first * DTypeSize(dtype)};
    return piece_;
  }
  piece_.tiles = tensor_.tiles;
  piece_.tiles.shape = shape;
  size_t scale = 0;
  if (!shape.empty()) {
    const int64_t tile = tensor_.tiles.tile[0];
    const int64_t before = tile < rows_ ? begin / tile : 0;
    piece_.tiles.tile[0] = std::clamp<int64_t>(end - begin, 1, tile);
    const Shape all = tensor_.tiles.scale_shape();
    scale = static_cast<size_t>(before) *
            (all[0] > 0 ? tensor_.tiles.scale_count() / static_cast<size_t>(all[0]) : 0);
  }
  piece_.codes = {reinterpret_cast<const uint8_t*>(stored_.view.data) + first, n};
  piece_.scales = std::span(scales_).subspan(scale, piece_.tiles.scale_count());
  decoded_.resize(n);
  if (zeros_.empty()) {
    DecodeTiles(*format_, piece_.codes, piece_.tiles, piece_.scales, decoded_);
  } else {
    piece_.zeros = std::span(zeros_).subspan(scale, piece_.tiles.scale_count());
    DecodeShifted(*format_, piece_.codes, {piece_.tiles, piece_.scales, piece_.zeros}, decoded_);
  }
  piece_.values = {DType::kF32, shape, reinterpret_cast<const std::byte*>(decoded_.data())};
  return piece_;
}

}  // namespace hif8
