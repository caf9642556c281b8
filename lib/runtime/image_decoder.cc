#include "lib/runtime/image_decoder.h"

#include <spng.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_STDIO
#define STBI_ONLY_BMP
#include <stb_image.h>

#include "lib/core/error.h"

namespace hif8 {
namespace {

using Bytes = std::span<const std::byte>;
using Pixels = std::vector<uint8_t>;

const uint8_t* Data(Bytes bytes) { return reinterpret_cast<const uint8_t*>(bytes.data()); }

[[noreturn]] void Fail(const std::string& why, const std::string& where) {
  throw ModelError("the image cannot be decoded: " + why,
                   "expected a whole jpg, png or bmp file; save the image again", where);
}

size_t Count(ImageSize size, int64_t channels) {
  return static_cast<size_t>(size.width * size.height * channels);
}

// Rec. 601, as JPEG has it. Pixels come as `stride` bytes, of which three count.
Pixels Reduced(const Pixels& from, size_t stride, int64_t channels) {
  Pixels to(from.size() / stride * static_cast<size_t>(channels));
  uint8_t* out = to.data();
  for (size_t i = 0; i + stride <= from.size(); i += stride) {
    const uint8_t* const p = &from[i];
    if (channels == 1) {
      *out++ = static_cast<uint8_t>((299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000);
    } else {
      out = std::copy_n(p, 3, out);
    }
  }
  return to;
}

// libjpeg-turbo.
class Jpeg {
 public:
  Jpeg(Bytes bytes, const std::string& where) : bytes_(bytes), where_(where) {
    if (handle_ == nullptr) Fail(tjGetErrorStr(), where);
    if (tjDecompressHeader3(handle_.get(), Data(bytes_), bytes_.size(), &width_, &height_,
                            &subsampling_, &colors_) != 0) {
      Fail(tjGetErrorStr2(handle_.get()), where_);
    }
  }

  ImageSize size() const { return {width_, height_}; }

  Pixels Decode(int64_t channels) const {
    const bool inks = colors_ == TJCS_CMYK || colors_ == TJCS_YCCK;
    const int format = inks ? TJPF_CMYK : channels == 1 ? TJPF_GRAY : TJPF_RGB;
    const auto stride = static_cast<size_t>(tjPixelSize[format]);
    Pixels pixels(Count(size(), static_cast<int64_t>(stride)));
    if (tjDecompress2(handle_.get(), Data(bytes_), bytes_.size(), pixels.data(), width_, 0, height_,
                      format, TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) != 0) {
      const std::string why = tjGetErrorStr2(handle_.get());
      // What cameras do and no pixel suffers from. The library's codes do not tell a warning from
      // an error that followed one.
      const bool harmless = std::ranges::any_of(kHarmless, [&](std::string_view warning) {
        return why.find(warning) != std::string::npos;
      });
      if (!harmless) Fail(why, where_);
    }
    if (!inks) return pixels;
    // Files hold inks inverted: 255 is none of it.
    for (size_t i = 0; i < pixels.size(); i += stride) {
      for (size_t c = 0; c < 3; ++c) {
        pixels[i + c] = static_cast<uint8_t>((pixels[i + c] * pixels[i + 3] + 127) / 255);
      }
    }
    return Reduced(pixels, stride, channels);
  }

 private:
  static constexpr std::array<std::string_view, 4> kHarmless = {
      "extraneous bytes", "JFIF revision", "Adobe color transform", "SOS parameters"};

  struct Destroy {
    void operator()(void* handle) const { tjDestroy(handle); }
  };

  Bytes bytes_;
  const std::string& where_;
  std::unique_ptr<void, Destroy> handle_{tjInitDecompress()};
  int width_ = 0, height_ = 0, subsampling_ = 0, colors_ = 0;
};

// libspng.
class Png {
 public:
  Png(Bytes bytes, const std::string& where) : where_(where) {
    constexpr size_t kChunk = size_t{1} << 24;  // of text and the like
    if (context_ == nullptr) Fail("no memory", where);
    Check(spng_set_chunk_limits(context_.get(), kChunk, kChunk));
    Check(spng_set_png_buffer(context_.get(), bytes.data(), bytes.size()));
    Check(spng_get_ihdr(context_.get(), &header_));
  }

  ImageSize size() const { return {header_.width, header_.height}; }

  Pixels Decode(int64_t channels) const {
    Pixels pixels(Count(size(), 3));
    Check(spng_decode_image(context_.get(), pixels.data(), pixels.size(), SPNG_FMT_RGB8, 0));
    return channels == 3 ? pixels : Reduced(pixels, 3, channels);
  }

 private:
  struct Free {
    void operator()(spng_ctx* context) const { spng_ctx_free(context); }
  };
  void Check(int status) const {
    if (status != 0) Fail(spng_strerror(status), where_);
  }

  const std::string& where_;
  std::unique_ptr<spng_ctx, Free> context_{spng_ctx_new(0)};
  spng_ihdr header_{};
};

// stb_image, which fills what a file lacks with zeros: so this is looked at here.
class Bmp {
 public:
  Bmp(Bytes bytes, const std::string& where) : bytes_(bytes), where_(where) {
    int channels = 0;
    if (bytes.size() > std::numeric_limits<int>::max() ||
        stbi_info_from_memory(Data(bytes), length(), &width_, &height_, &channels) == 0) {
      Fail(bytes.size() > std::numeric_limits<int>::max() ? "2 GiB and more" : Why(), where);
    }
    CheckLength();
  }

  ImageSize size() const { return {width_, height_}; }

  Pixels Decode(int64_t channels) const {
    int width = 0, height = 0, stored = 0;
    const std::unique_ptr<stbi_uc, Free> decoded(
        stbi_load_from_memory(Data(bytes_), length(), &width, &height, &stored, 3));
    if (decoded == nullptr || width != width_ || height != height_) Fail(Why(), where_);
    Pixels pixels(decoded.get(), decoded.get() + Count(size(), 3));
    return channels == 3 ? pixels : Reduced(pixels, 3, channels);
  }

 private:
  struct Free {
    void operator()(void* pixels) const { stbi_image_free(pixels); }
  };
  int length() const { return static_cast<int>(bytes_.size()); }
  static std::string Why() {
    const char* why = stbi_failure_reason();
    return why == nullptr ? "unknown reason" : why;
  }
  uint64_t Number(size_t at, size_t count) const {
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      value |= std::to_integer<uint64_t>(bytes_[at + i]) << (8 * i);
    }
    return value;
  }

  // A file header of 14 bytes, then one of the image, of 12 bytes or longer. Rows are whole words;
  // some writers leave out what fills the last one.
  void CheckLength() const {
    constexpr size_t kHeaders = 30;
    constexpr uint64_t kOldHeader = 12;
    if (bytes_.size() < kHeaders) Fail("the file is truncated", where_);
    const bool old = Number(14, 4) == kOldHeader;
    const uint64_t bits = static_cast<uint64_t>(width_) * Number(old ? 24 : 28, 2);
    const auto rows = static_cast<uint64_t>(std::max(height_, 1));
    const uint64_t end = Number(10, 4) + (bits + 31) / 32 * 4 * (rows - 1) + (bits + 7) / 8;
    if (end <= bytes_.size()) return;
    Fail("pixels end at byte " + std::to_string(end) + ", the file at " +
             std::to_string(bytes_.size()),
         where_);
  }

  Bytes bytes_;
  const std::string& where_;
  int width_ = 0, height_ = 0;
};

// Calls `use` with the decoder that the first bytes ask for.
template <typename Use>
auto WithDecoder(Bytes bytes, const std::string& where, const Use& use) {
  const auto begins = [&](std::string_view magic) {
    return bytes.size() >= magic.size() &&
           std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  if (begins("\xff\xd8")) return use(Jpeg(bytes, where));
  if (begins("\x89PNG")) return use(Png(bytes, where));
  if (begins("BM")) return use(Bmp(bytes, where));
  Fail("it begins as no jpg, png or bmp file does", where);
}

}  // namespace

ImageSize ReadImageSize(std::span<const std::byte> file, const std::string& where) {
  return WithDecoder(file, where, [](const auto& decoder) { return decoder.size(); });
}

int64_t DecodedBytesPerPixel(int64_t channels) {
  constexpr int64_t kComponents = 4;
  constexpr int64_t kCoefficient = 2;  // of a JPEG in several scans, which is held whole
  return kComponents * (kCoefficient + 1) + channels;
}

std::vector<uint8_t> DecodeImage(std::span<const std::byte> file, ImageSize size, int64_t channels,
                                 const std::string& where) {
  return WithDecoder(file, where, [&](const auto& decoder) {
    const ImageSize now = decoder.size();
    if (now.width != size.width || now.height != size.height) Fail("its size has changed", where);
    return decoder.Decode(channels);
  });
}

}  // namespace hif8
