#include "worker/src/formats/safetensors_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "worker/src/formats/dtype.h"
#include "worker/src/formats/format_error.h"

namespace ddp::internal {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the limit of the format

using Tensor = SafetensorsHeader::Tensor;

// Parses the header value by value. So it stores nothing forbidden, and it finds duplicate keys. A
// JSON document would take many times the size of its text, and would drop duplicate keys.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(SafetensorsHeader* header) : header_(*header) {}

  bool key(string_t& key) override {
    if (place_ == Place::kMetadata) {
      const auto [text, is_new] = header_.metadata.emplace(key, "");
      if (!is_new) Fail("metadata " + Quoted(key) + " is there twice");
      text_ = &text->second;
    } else if (place_ == Place::kHeader) {
      if (!names_.insert(key).second) Fail("tensor " + Quoted(key) + " is there twice");
      in_metadata_ = key == kSafetensorsMetadata;
      if (in_metadata_) return true;
      header_.tensors.emplace_back().name = key;
      has_shape_ = false;
    } else {
      Field(key);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kHeader;
    } else if (place_ == Place::kHeader) {
      place_ = in_metadata_ ? Place::kMetadata : Place::kTensor;
    } else {
      Unexpected();
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      const Tensor& tensor = header_.tensors.back();
      if (tensor.dtype == nullptr || !has_shape_ || tensor.offsets.size() != 2) {
        Fail(Name() + " lacks dtype, shape or two data_offsets");
      }
    }
    place_ = place_ == Place::kHeader ? Place::kEnd : Place::kHeader;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || field_ == kDtype) return Unexpected();
    place_ = Place::kArray;
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kArray) return Unexpected();
    Tensor& tensor = header_.tensors.back();
    if (field_ == kOffsets) {
      if (tensor.offsets.size() == 2) Fail(Name() + " has more than two data_offsets");
      tensor.offsets.push_back(value);
    } else {
      if (tensor.shape.size() == kMaxDimensions) Fail(Name() + " has more than 64 dimensions");
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        Fail(Name() + " has an impossible shape");
      }
      tensor.shape.push_back(static_cast<std::int64_t>(value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      *text_ = std::move(value);
      return true;
    }
    if (place_ != Place::kTensor || field_ != kDtype) return Unexpected();
    Tensor& tensor = header_.tensors.back();
    tensor.dtype = FindDtype(&DtypeInfo::safetensors, value);
    if (tensor.dtype == nullptr) Fail(Name() + " has unknown dtype " + Quoted(value));
    return true;
  }

  bool null() override { return Unexpected(); }
  bool boolean(bool) override { return Unexpected(); }
  bool number_integer(number_integer_t) override { return Unexpected(); }
  bool number_float(number_float_t, const string_t&) override { return Unexpected(); }
  bool binary(binary_t&) override { return Unexpected(); }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    Fail("it is not JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place { kStart, kHeader, kMetadata, kTensor, kArray, kEnd };
  enum TensorField { kDtype, kShape, kOffsets };

  [[noreturn]] static void Fail(const std::string& what) {
    throw FormatError("its header: " + what);
  }

  bool Unexpected() const {
    Fail((header_.tensors.empty() ? "it" : Name()) +
         " has a value that the format does not have there");
  }

  std::string Name() const { return "tensor " + Quoted(header_.tensors.back().name); }

  void Field(const std::string& key) {
    Tensor& tensor = header_.tensors.back();
    bool again = false;
    if (key == "dtype") {
      field_ = kDtype;
      again = tensor.dtype != nullptr;
    } else if (key == "shape") {
      field_ = kShape;
      again = std::exchange(has_shape_, true);
    } else if (key == "data_offsets") {
      field_ = kOffsets;
      again = !tensor.offsets.empty();
    } else {
      Fail(Name() + " has the unknown field " + Quoted(key));
    }
    if (again) Fail(Name() + " has " + key + " twice");
  }

  SafetensorsHeader& header_;  // owned by the caller; outlives this
  std::unordered_set<std::string> names_;
  std::string* text_ = nullptr;  // value of the newest metadata key
  bool has_shape_ = false;       // of the newest tensor
  Place place_ = Place::kStart;
  TensorField field_ = kDtype;
  bool in_metadata_ = false;
};

}  // namespace

std::size_t SafetensorsHeaderBytes(std::string_view front, std::uint64_t file_bytes) {
  if (front.size() < kSafetensorsPrefixBytes) {
    throw DamagedError("it is too short (" + std::to_string(file_bytes) + " bytes)");
  }
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < kSafetensorsPrefixBytes; ++i) {
    size |= static_cast<std::uint64_t>(static_cast<unsigned char>(front[i])) << (8 * i);
  }
  if (size > kMaxHeaderBytes || size > file_bytes - kSafetensorsPrefixBytes) {
    throw DamagedError("it is too short for its header of " + std::to_string(size) +
                       " bytes, or no safetensors file");
  }
  return static_cast<std::size_t>(size);
}

SafetensorsHeader ReadSafetensorsHeader(std::string_view text) {
  if (text.empty() || text.front() != '{') throw FormatError("it is no safetensors file");
  SafetensorsHeader header;
  HeaderReader reader(&header);
  json::sax_parse(text.begin(), text.end(), &reader);
  return header;
}

std::vector<TensorExtent> ExtentsOf(SafetensorsHeader header, std::uint64_t data_bytes) {
  // A stable sort with empty tensors first, so that the order is unique.
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const Tensor& a, const Tensor& b) { return a.offsets < b.offsets; });
  std::vector<TensorExtent> extents;
  std::uint64_t end = 0;  // the end of the tensors so far
  for (Tensor& tensor : header.tensors) {
    const std::string name = "tensor " + Quoted(tensor.name);
    const std::uint64_t begin = tensor.offsets[0];
    if (begin != end) {
      throw DamagedError(name + " begins at byte " + std::to_string(begin) +
                         ", where the one before it ends at " + std::to_string(end));
    }
    end = tensor.offsets[1];
    if (end < begin || end > data_bytes) {
      throw DamagedError("it is too short: " + name + " ends at byte " + std::to_string(end) +
                         " of " + std::to_string(data_bytes));
    }
    TensorExtent extent;
    extent.name = std::move(tensor.name);
    extent.dtype = tensor.dtype;
    extent.begin = begin;
    extent.size = end - begin;
    extent.strides = ContiguousStrides(tensor.shape);
    extent.shape = std::move(tensor.shape);
    const std::uint64_t elements = extent.size / tensor.dtype->size;
    CheckView({extent.name, 0, 0, extent.shape, extent.strides}, elements, tensor.dtype->size);
    std::uint64_t expected = tensor.dtype->size;
    for (const std::int64_t length : extent.shape) expected *= static_cast<std::uint64_t>(length);
    if (extent.size != expected) {
      throw DamagedError(name + " has " + std::to_string(extent.size) + " bytes, its shape needs " +
                         std::to_string(expected));
    }
    extents.push_back(std::move(extent));
  }
  if (end != data_bytes) {
    throw DamagedError("its tensors have " + std::to_string(end) + " bytes, but the file has " +
                       std::to_string(data_bytes) + " that follow its header");
  }
  return extents;
}

TensorIndex IndexSafetensors(std::string_view file) {
  const std::size_t header_bytes =
      SafetensorsHeaderBytes(file.substr(0, kSafetensorsPrefixBytes), file.size());
  const std::string_view data = file.substr(kSafetensorsPrefixBytes + header_bytes);
  TensorIndex index;
  for (TensorExtent& extent :
       ExtentsOf(ReadSafetensorsHeader(file.substr(kSafetensorsPrefixBytes, header_bytes)),
                 data.size())) {
    index.tensors.push_back({std::move(extent.name), index.storages.size(), 0,
                             std::move(extent.shape), std::move(extent.strides)});
    index.storages.push_back({data.substr(extent.begin, extent.size), extent.dtype->dtype});
  }
  return index;
}

}  // namespace ddp::internal
