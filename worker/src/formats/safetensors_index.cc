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

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kPrefixBytes = 8;
constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

// What the header says of a tensor.
struct Entry {
  TensorView view;
  const DtypeInfo* dtype = nullptr;
  bool has_shape = false;
  std::vector<std::uint64_t> offsets;
};

// Takes the header value by value, so that nothing is stored that a header must not have, and what
// is said twice is seen: a JSON document in memory takes many times the size of its text, and
// keeps the last of two equal keys.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  std::vector<Entry> Take() { return std::move(entries_); }

  bool key(string_t& key) override {
    if (place_ == Place::kMetadata) {
      if (!metadata_.insert(key).second) Fail("metadata " + Quoted(key) + " is there twice");
    } else if (place_ == Place::kHeader) {
      if (!names_.insert(key).second) Fail("tensor " + Quoted(key) + " is there twice");
      in_metadata_ = key == kMetadata;
      if (!in_metadata_) entries_.emplace_back().view.name = key;
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
      const Entry& entry = entries_.back();
      if (entry.dtype == nullptr || !entry.has_shape || entry.offsets.size() != 2) {
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
    Entry& entry = entries_.back();
    if (field_ == kOffsets) {
      if (entry.offsets.size() == 2) Fail(Name() + " has more than two data_offsets");
      entry.offsets.push_back(value);
    } else {
      if (entry.view.shape.size() == kMaxDimensions) Fail(Name() + " has more than 64 dimensions");
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        Fail(Name() + " has an impossible shape");
      }
      entry.view.shape.push_back(static_cast<std::int64_t>(value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kTensor || field_ != kDtype) return Unexpected();
    entries_.back().dtype = FindDtype(&DtypeInfo::safetensors, value);
    if (entries_.back().dtype == nullptr) Fail(Name() + " has unknown dtype " + Quoted(value));
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
    Fail((entries_.empty() ? "it" : Name()) + " has a value that the format does not have there");
  }

  std::string Name() const { return "tensor " + Quoted(entries_.back().view.name); }

  void Field(const std::string& key) {
    Entry& entry = entries_.back();
    bool again = false;
    if (key == "dtype") {
      field_ = kDtype;
      again = entry.dtype != nullptr;
    } else if (key == "shape") {
      field_ = kShape;
      again = std::exchange(entry.has_shape, true);
    } else if (key == "data_offsets") {
      field_ = kOffsets;
      again = !entry.offsets.empty();
    } else {
      Fail(Name() + " has the unknown field " + Quoted(key));
    }
    if (again) Fail(Name() + " has " + key + " twice");
  }

  std::vector<Entry> entries_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> metadata_;
  Place place_ = Place::kStart;
  TensorField field_ = kDtype;
  bool in_metadata_ = false;
};

std::string_view HeaderOf(std::string_view file) {
  if (file.size() < kPrefixBytes) {
    throw FormatError("it is too short (" + std::to_string(file.size()) + " bytes)");
  }
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < kPrefixBytes; ++i) {
    size |= static_cast<std::uint64_t>(static_cast<unsigned char>(file[i])) << (8 * i);
  }
  if (size > kMaxHeaderBytes || size > file.size() - kPrefixBytes) {
    throw FormatError("it is too short for its header of " + std::to_string(size) +
                      " bytes, or no safetensors file");
  }
  const std::string_view header = file.substr(kPrefixBytes, static_cast<std::size_t>(size));
  if (header.empty() || header.front() != '{') throw FormatError("it is no safetensors file");
  return header;
}

}  // namespace

TensorIndex IndexSafetensors(std::string_view file) {
  const std::string_view header = HeaderOf(file);
  const std::string_view data = file.substr(kPrefixBytes + header.size());
  HeaderReader reader;
  json::sax_parse(header.begin(), header.end(), &reader);
  std::vector<Entry> entries = reader.Take();
  // Stable, and empty tensors first, so that the order is always the same.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });

  TensorIndex index;
  std::uint64_t end = 0;  // of the tensors so far
  for (Entry& entry : entries) {
    TensorView& view = entry.view;
    const std::string name = "tensor " + Quoted(view.name);
    if (entry.offsets[0] != end) {
      throw FormatError(name + " begins at byte " + std::to_string(entry.offsets[0]) +
                        ", where the one before it ends at " + std::to_string(end));
    }
    if (entry.offsets[1] < end || entry.offsets[1] > data.size()) {
      throw FormatError(name + " ends at byte " + std::to_string(entry.offsets[1]) + " of " +
                        std::to_string(data.size()));
    }
    const std::uint64_t size = entry.offsets[1] - end;
    view.strides = ContiguousStrides(view.shape);
    view.storage = index.storages.size();
    CheckView(view, size / entry.dtype->size, entry.dtype->size);
    std::uint64_t expected = entry.dtype->size;
    for (const std::int64_t extent : view.shape) expected *= static_cast<std::uint64_t>(extent);
    if (size != expected) {
      throw FormatError(name + " has " + std::to_string(size) + " bytes, its shape needs " +
                        std::to_string(expected));
    }
    index.storages.push_back({data.substr(end, size), entry.dtype->dtype});
    index.tensors.push_back(std::move(view));
    end = entry.offsets[1];
  }
  if (end != data.size()) {
    throw FormatError("its tensors have " + std::to_string(end) + " bytes, but " +
                      std::to_string(data.size()) + " follow its header");
  }
  return index;
}

}  // namespace ddp::internal
