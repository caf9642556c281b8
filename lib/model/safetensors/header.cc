#include "lib/model/safetensors/header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "lib/core/error.h"

namespace hif8 {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxRank = 64;
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr const char* kHint = "save the file again, or get it again from where it came";

// Takes the header apart while it is being parsed: no document is kept, nesting and ranks are
// bounded, and duplicate names are seen.
class Handler : public nlohmann::json_sax<Json> {
 public:
  Handler(SafetensorsHeader* header, std::string where)
      : header_(header), where_(std::move(where)) {}

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override {
    return Unexpected("the number " + std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return Unexpected("the number " + text);
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ != 3 || value > uint64_t{INT64_MAX}) {
      return Unexpected("the number " + std::to_string(value));
    }
    if (numbers_.size() >= kMaxRank) return Unexpected("more than 64 dimensions");
    numbers_.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata_) {
      header_->metadata.emplace_back(key_, value);
      return true;
    }
    if (depth_ != 2 || field_ != "dtype") return Unexpected("the string '" + value + "'");
    SafetensorsEntry& entry = header_->tensors.back();
    if (value.empty()) return Unexpected("the string ''");
    if (!ParseDType(value, &entry.dtype)) {
      entry.dtype = DType::kOpaque;
      entry.opaque_type = value;
    }
    return See(kDType);
  }

  bool key(string_t& value) override {
    if (depth_ == 2) {
      (in_metadata_ ? key_ : field_) = value;
      return true;
    }
    if (!names_.insert(value).second) {
      throw ModelError("the name '" + value + "' occurs twice in the header",
                       "save the tensors again, each under its own name", where_);
    }
    in_metadata_ = value == kMetadataKey;
    if (in_metadata_) {
      header_->has_metadata = true;
    } else {
      header_->tensors.push_back({});
      header_->tensors.back().name = value;
    }
    seen_ = 0;
    return true;
  }

  bool start_object(size_t) override {
    if (depth_ >= 2) return Unexpected("an object");
    ++depth_;
    return true;
  }

  bool end_object() override {
    --depth_;
    if (depth_ == 1 && !in_metadata_ && seen_ != kAll) {
      throw ModelError(
          "tensor '" + header_->tensors.back().name + "': expected dtype, shape and data_offsets",
          kHint, where_);
    }
    if (depth_ == 1 && !in_metadata_) CheckSize(header_->tensors.back());
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ != 2 || in_metadata_ || (field_ != "shape" && field_ != "data_offsets")) {
      return Unexpected("an array");
    }
    ++depth_;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    --depth_;
    SafetensorsEntry& entry = header_->tensors.back();
    if (field_ == "shape") {
      entry.shape.assign(numbers_.begin(), numbers_.end());
      return See(kShape);
    }
    if (numbers_.size() != 2) return Unexpected(std::to_string(numbers_.size()) + " numbers");
    entry.begin = numbers_[0];
    entry.end = numbers_[1];
    return See(kOffsets);
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    std::string reason = e.what();
    // "[json.exception.parse_error.101] parse error at ...: what was wrong"
    if (const size_t colon = reason.find(": "); colon != std::string::npos) {
      reason.erase(0, colon + 2);
    }
    throw ModelError("the header is no JSON at offset " + std::to_string(8 + position) + ": " +
                         reason.substr(0, 200),
                     "is it a complete safetensors file?", where_);
  }

 private:
  enum : unsigned { kDType = 1, kShape = 2, kOffsets = 4, kAll = 7 };

  // Zeros are skipped: the product of the other dimensions must be sane even where the tensor is
  // empty.
  void CheckSize(const SafetensorsEntry& entry) const {
    constexpr int64_t kMost = int64_t{1} << 60;
    int64_t n = 1;
    for (const int64_t d : entry.shape) {
      if (d > kMost / n) {
        throw ModelError(
            "tensor '" + entry.name + "' at offset " + std::to_string(entry.begin) + ": shape " +
                ShapeText(entry.shape) +
                " does not match any data: it has more than 2^60 elements, zeros aside",
            "the file is damaged; get it again", where_);
      }
      n *= std::max<int64_t>(d, 1);
    }
  }

  bool See(unsigned field) {
    if ((seen_ & field) != 0) return Unexpected("second value");
    seen_ |= field;
    return true;
  }

  bool Unexpected(const std::string& what) {
    std::string place = "the header";
    if (depth_ >= 1 && in_metadata_) {
      place += "'s __metadata__ (expected strings)";
    } else if (depth_ >= 1 && !header_->tensors.empty()) {
      place = "tensor '" + header_->tensors.back().name + "'";
      if (depth_ >= 2) place += " " + field_.substr(0, 60);
    }
    throw ModelError(place + ": unexpected " + what.substr(0, 100), kHint, where_);
  }

  SafetensorsHeader* header_;
  std::string where_;
  int depth_ = 0;  // 1: in the header, 2: in a tensor or the metadata, 3: in an array
  bool in_metadata_ = false;
  std::string key_;    // of the metadata
  std::string field_;  // of the tensor
  unsigned seen_ = 0;
  std::vector<uint64_t> numbers_;
  std::unordered_set<std::string> names_;
};

}  // namespace

SafetensorsHeader ParseSafetensorsHeader(std::string_view text, const std::string& where) {
  if (text.empty() || text.front() != '{') {
    throw ModelError("the header at offset 8 does not begin with '{'",
                     "is it a complete safetensors file?", where);
  }
  SafetensorsHeader header;
  Handler handler(&header, where);
  Json::sax_parse(text.begin(), text.end(), &handler);
  return header;
}

std::string FormatSafetensorsHeader(std::span<const SafetensorsEntry> tensors,
                                    const SafetensorsMetadata* metadata) {
  std::string text = "{";
  const auto add_key = [&text](std::string_view name) {
    if (text.size() > 1) text += ',';
    text += Json(name).dump() + ":";
  };
  if (metadata != nullptr) {
    add_key(kMetadataKey);
    text += '{';
    for (size_t i = 0; i < metadata->size(); ++i) {
      if (i > 0) text += ',';
      text += Json((*metadata)[i].first).dump() + ":" + Json((*metadata)[i].second).dump();
    }
    text += '}';
  }
  for (const SafetensorsEntry& entry : tensors) {
    add_key(entry.name);
    text += "{\"dtype\":" + Json(entry.type()).dump() + ",\"shape\":" + Json(entry.shape).dump() +
            ",\"data_offsets\":[" + std::to_string(entry.begin) + "," + std::to_string(entry.end) +
            "]}";
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace hif8
