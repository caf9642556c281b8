// Images as tensors.
#define STB_IMAGE_RESIZE_IMPLEMENTATION
// The library asserts that a filter's taps sum to nearly 1 before it normalises them; the triangle
// filter misses that by more than its tolerance at some ratios, which is no fault of the image.
#define STBIR_ASSERT(condition) static_cast<void>(condition)
#include <stb_image_resize.h>

#include <cmath>

#include "lib/core/error.h"
#include "lib/core/mapped_file.h"
#include "lib/core/memory.h"
#include "lib/runtime/data_convert.h"
#include "lib/runtime/data_file.h"
#include "lib/runtime/image_decoder.h"

namespace hif8 {
namespace {

// A header may claim anything; more than this is no photo.
constexpr int64_t kMaxPixels = int64_t{1} << 28;
// JPEG's limit. A picture one pixel wide and millions high is a matter of seconds to resize.
constexpr int kMaxSide = 65535;
// And no file holds more: PNG packs eight pixels of one bit into a byte, of which deflate makes
// 1032 from one.
constexpr int64_t kMaxPixelsPerByte = int64_t{8} * 1032;

class ImageFile : public DataFile {
 public:
  ImageFile(const std::filesystem::path& path, const ImageOptions& options, const GraphValue& input)
      : options_(options), path_(path) {
    channels_ = options.channels == ImageChannels::kGray ? 1 : 3;
    nchw_ = options.layout == ImageLayout::kNchw;
    height_ = options.size[0];
    width_ = options.size[1];
    // Positions of height and width, counted from the back: a model may have no batch dimension.
    const size_t rank = input.rank_known && input.shape.size() == 3 ? 3 : 4;
    const size_t h = rank - (nchw_ ? 2 : 3);
    if (input.rank_known && input.shape.size() == rank) {
      const size_t c = nchw_ ? h - 1 : h + 2;
      CheckLayout(input, nchw_ ? h + 1 : h, c);
      if (input.shape[h] > 0) height_ = input.shape[h];
      if (input.shape[h + 1] > 0) width_ = input.shape[h + 1];
    }
    Shape shape = nchw_ ? Shape{channels_, height_, width_} : Shape{height_, width_, channels_};
    if (rank == 4) shape.insert(shape.begin(), 1);
    const bool made = input.dtype == DType::kU8 || IsFloat(input.dtype);
    arrays_.push_back({"", made ? input.dtype : DType::kF32, std::move(shape)});

    CheckTarget();
    CheckedSize(MappedFile::Open(path_)->bytes());
  }

  Tensor Read(size_t, size_t, size_t) override {
    const std::vector<float> pixels = Resized();
    const Array& array = arrays_[0];
    const bool to_bytes = array.dtype == DType::kU8;
    std::byte* bytes = nullptr;
    Tensor tensor = Tensor::Allocate(to_bytes ? DType::kU8 : DType::kF32, array.shape, &bytes);
    const auto area = static_cast<size_t>(height_ * width_);
    const auto channels = static_cast<size_t>(channels_);
    const bool bgr = options_.channels == ImageChannels::kBgr;
    for (size_t p = 0; p < area; ++p) {
      for (size_t c = 0; c < channels; ++c) {
        const float value = pixels[p * channels + (bgr ? channels - 1 - c : c)];
        const size_t at = nchw_ ? c * area + p : p * channels + c;
        if (to_bytes) {
          bytes[at] = static_cast<std::byte>(std::lround(value));
        } else {
          reinterpret_cast<float*>(bytes)[at] =
              (value / 255.0f - static_cast<float>(options_.mean[c])) /
              static_cast<float>(options_.std[c]);
        }
      }
    }
    return tensor.view.dtype == array.dtype ? tensor : Convert(tensor.view, array.dtype);
  }

 private:
  // Channels stand at `channels`, and at `other` in the other layout: a model that has as many of
  // them there, and not here, was made for that one.
  void CheckLayout(const GraphValue& input, size_t other, size_t channels) const {
    if (input.shape[other] != channels_ || input.shape[channels] == channels_) return;
    throw ModelError("input '" + input.name + "' seems to want images as " +
                         (nchw_ ? "nhwc" : "nchw") + ", not " + (nchw_ ? "nchw" : "nhwc"),
                     std::string("set data.image.layout to ") + (nchw_ ? "nhwc" : "nchw"),
                     path_.string());
  }

  void CheckTarget() const {
    if (height_ > 0 && width_ > 0 && height_ <= kMaxPixels / width_) return;
    throw ModelError("expected images of 1 to 2^28 pixels for the model, found a size of " +
                         std::to_string(height_) + "x" + std::to_string(width_),
                     "set data.image.size to [height, width]", path_.string());
  }

  // Reads the header only. Refuses what is no image, and what takes more than the memory limit
  // together with the tensors made of it.
  ImageSize CheckedSize(std::span<const std::byte> file) const {
    const ImageSize size = ReadImageSize(file, path_.string());
    const std::string text = std::to_string(size.width) + "x" + std::to_string(size.height);
    if (size.width <= 0 || size.height <= 0 || size.width > kMaxSide || size.height > kMaxSide ||
        size.width * size.height > kMaxPixels) {
      throw ModelError(
          "expected an image of 1 to 2^28 pixels and up to 65535 on a side, found one of " + text,
          "give a photo that a viewer can show", path_.string());
    }
    if (size.width * size.height / kMaxPixelsPerByte > static_cast<int64_t>(file.size())) {
      throw ModelError("an image of " + text + " pixels cannot be in a file of " +
                           std::to_string(file.size()) + " bytes",
                       "the file is truncated or damaged; save the image again", path_.string());
    }
    const auto pixels = static_cast<uint64_t>(size.width * size.height);
    const auto target = static_cast<uint64_t>(height_ * width_);
    const auto channels = static_cast<uint64_t>(channels_);
    RequireMemory((pixels + 2 * target) * channels * sizeof(float) +
                      pixels * static_cast<uint64_t>(DecodedBytesPerPixel(channels_)),
                  MemoryLimit(), "image '" + path_.string() + "'",
                  text + " pixels, decoded and as floats");
    return size;
  }

  // Height x width x channels, values 0 to 255.
  std::vector<float> Resized() const {
    const std::shared_ptr<const MappedFile> file = MappedFile::Open(path_);
    const ImageSize size = CheckedSize(file->bytes());
    std::vector<float> source;
    {
      const std::vector<uint8_t> decoded =
          DecodeImage(file->bytes(), size, channels_, path_.string());
      source.assign(decoded.begin(), decoded.end());
    }
    if (size.width == width_ && size.height == height_) return source;
    std::vector<float> pixels(static_cast<size_t>(height_ * width_ * channels_));
    const int resized = stbir_resize_float_generic(
        source.data(), static_cast<int>(size.width), static_cast<int>(size.height), 0,
        pixels.data(), static_cast<int>(width_), static_cast<int>(height_), 0,
        static_cast<int>(channels_), STBIR_ALPHA_CHANNEL_NONE, 0, STBIR_EDGE_CLAMP,
        STBIR_FILTER_TRIANGLE, STBIR_COLORSPACE_LINEAR, nullptr);
    if (resized == 0) {
      throw EnvironmentError("no memory to resize an image", "free memory, or use smaller images",
                             path_.string());
    }
    return pixels;
  }

  ImageOptions options_;
  std::filesystem::path path_;
  int64_t channels_ = 3;
  int64_t height_ = 0;
  int64_t width_ = 0;
  bool nchw_ = true;
};

}  // namespace

std::unique_ptr<DataFile> OpenImage(const std::filesystem::path& path, const ImageOptions& options,
                                    const GraphValue& input) {
  return std::make_unique<ImageFile>(path, options, input);
}

}  // namespace hif8
