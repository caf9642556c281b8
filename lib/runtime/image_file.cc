// Images as tensors.
#include "lib/runtime/decode_budget.h"
#define STBI_MALLOC(size) hif8::DecodeBudget::Allocate(size)
#define STBI_REALLOC(block, size) hif8::DecodeBudget::Reallocate(block, size)
#define STBI_FREE(block) hif8::DecodeBudget::Free(block)
#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#include <stb_image.h>
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
#include "lib/runtime/image_check.h"

namespace hif8 {
namespace {

// A header may claim anything; more than this is no photo.
constexpr int64_t kMaxPixels = int64_t{1} << 28;
// JPEG's limit. A picture one pixel wide and millions high is a matter of seconds to resize.
constexpr int kMaxSide = 65535;
// And no file holds more: PNG packs eight pixels of one bit into a byte, of which deflate makes
// 1032 from one.
constexpr int64_t kMaxPixelsPerByte = int64_t{8} * 1032;
// What decoders take for tables, whatever the image.
constexpr uint64_t kHeaderBytes = uint64_t{1} << 20;

struct FreePixels {
  void operator()(void* pixels) const { stbi_image_free(pixels); }
};

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
    OpenFile();
    DecodeMemory();
    file_.reset();  // one open file at a time is enough, however many there are
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

  void OpenFile() {
    file_ = MappedFile::Open(path_);
    CheckImage(file_->bytes(), path_.string());
  }

  const stbi_uc* data() const { return reinterpret_cast<const stbi_uc*>(file_->bytes().data()); }
  // 0 where the decoder cannot take the file.
  int size() const {
    const size_t bytes = file_->bytes().size();
    return bytes <= 0x7fffffff ? static_cast<int>(bytes) : 0;
  }

  [[noreturn]] void Fail() const {
    throw ModelError(std::string("the image cannot be decoded: ") + stbi_failure_reason(),
                     "expected a jpg, png or bmp file", path_.string());
  }

  void CheckTarget() const {
    if (height_ > 0 && width_ > 0 && height_ <= kMaxPixels / width_) return;
    throw ModelError("expected images of 1 to 2^28 pixels for the model, found a size of " +
                         std::to_string(height_) + "x" + std::to_string(width_),
                     "set data.image.size to [height, width]", path_.string());
  }

  // Reads the header only, and returns how many bytes decoding may take. Refuses what is no image,
  // and what takes more than the memory limit together with the tensors made of it.
  DecodeBudget::Limits DecodeMemory() const {
    int x = 0;
    int y = 0;
    int n = 0;
    if (size() == 0) {
      throw ModelError("expected an image of less than 2 GiB, found " +
                           std::to_string(file_->bytes().size()) + " bytes",
                       "give a jpg, png or bmp file", path_.string());
    }
    const DecodeBudget header({.structure = kHeaderBytes, .memory = kHeaderBytes});
    if (stbi_info_from_memory(data(), size(), &x, &y, &n) == 0) Fail();
    CheckPixels(x, y);
    const auto pixels = static_cast<uint64_t>(x) * static_cast<uint64_t>(y);
    const auto target = static_cast<uint64_t>(height_) * static_cast<uint64_t>(width_);
    const auto channels = static_cast<uint64_t>(channels_);
    const uint64_t floats = (pixels + 2 * target) * channels * sizeof(float);
    const std::string what = "image '" + path_.string() + "'";
    const std::string why =
        std::to_string(x) + "x" + std::to_string(y) + " pixels, decoded and as floats";
    RequireMemory(floats + pixels * channels, MemoryLimit(), what, why);
    // Blocks of JPEG are up to 32 pixels wide and high. The decoders hold at most three images of
    // four channels of 16 bits at a time, beside the compressed data in a buffer that doubles.
    const auto padded = (static_cast<uint64_t>(x) + 31) * (static_cast<uint64_t>(y) + 31);
    return {.structure = 3 * 4 * 2 * padded + 4 * static_cast<uint64_t>(size()) + kHeaderBytes,
            .memory = MemoryLimit() - kProgramMemory - floats};
  }

  void CheckPixels(int x, int y) const {
    if (x <= 0 || y <= 0 || x > kMaxSide || y > kMaxSide || int64_t{x} * y > kMaxPixels) {
      throw ModelError(
          "expected an image of 1 to 2^28 pixels and up to 65535 on a side, found one "
          "of " +
              std::to_string(x) + "x" + std::to_string(y),
          "give a photo that a viewer can show", path_.string());
    }
    if (int64_t{x} * y / kMaxPixelsPerByte > size()) {
      throw ModelError("an image of " + std::to_string(x) + "x" + std::to_string(y) +
                           " pixels cannot be in a file of " + std::to_string(size()) + " bytes",
                       "the file is truncated or damaged; save the image again", path_.string());
    }
  }

  // Height x width x channels, values 0 to 255.
  std::vector<float> Resized() {
    OpenFile();
    int x = 0;
    int y = 0;
    int n = 0;
    const DecodeBudget budget(DecodeMemory());
    const std::unique_ptr<stbi_uc, FreePixels> decoded(
        stbi_load_from_memory(data(), size(), &x, &y, &n, static_cast<int>(channels_)));
    if (decoded != nullptr) CheckPixels(x, y);
    file_.reset();
    if (budget.exceeded() == DecodeBudget::Exceeded::kMemory) {
      throw EnvironmentError("decoding the image takes more memory than the limit of " +
                                 SizeText(MemoryLimit()) + " leaves",
                             "give --memory-limit more, or a smaller image", path_.string());
    }
    if (budget.exceeded() == DecodeBudget::Exceeded::kStructure) {
      throw ModelError("the image's compressed data is larger than its pixels can be",
                       "write the image again with another program", path_.string());
    }
    if (decoded == nullptr) Fail();
    const auto count =
        static_cast<size_t>(x) * static_cast<size_t>(y) * static_cast<size_t>(channels_);
    std::vector<float> source(count);
    for (size_t i = 0; i < count; ++i) source[i] = decoded.get()[i];
    if (x == width_ && y == height_) return source;
    std::vector<float> pixels(static_cast<size_t>(height_ * width_ * channels_));
    const int resized = stbir_resize_float_generic(
        source.data(), x, y, 0, pixels.data(), static_cast<int>(width_), static_cast<int>(height_),
        0, static_cast<int>(channels_), STBIR_ALPHA_CHANNEL_NONE, 0, STBIR_EDGE_CLAMP,
        STBIR_FILTER_TRIANGLE, STBIR_COLORSPACE_LINEAR, nullptr);
    if (resized == 0)
      throw EnvironmentError("no memory to resize an image", "free memory, or use smaller images",
                             path_.string());
    return pixels;
  }

  ImageOptions options_;
  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
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
