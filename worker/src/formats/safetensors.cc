#include "worker/src/formats/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "worker/src/base/xxh3.h"
#include "worker/src/formats/dtype.h"

namespace ddp::internal {
namespace {

using nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr char kTensorHashes[] = "xxh3";
constexpr char kHeaderHash[] = "header_xxh3";
constexpr std::size_t kPrefixBytes = 8;
constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::size_t kAlignment = 8;

std::string Hash(const void* data, std::size_t size) { return HashText(Xxh3(data, size)); }

void WritePrefix(std::size_t header_size, char* to) {
  for (std::size_t i = 0; i < kPrefixBytes; ++i) {
    to[i] = static_cast<char>(header_size >> (8 * i) & 0xff);
  }
}

// Over the header without this hash; json sorts its keys, so the text is always the same.
std::string HeaderHash(json header) {
  header[kMetadata].erase(kHeaderHash);
  const std::string text = header.dump();
  return Hash(text.data(), text.size());
}

// Product of shape and element size, or FormatError for what cannot be.
std::size_t ExpectedBytes(const TensorInfo& info) {
  std::size_t bytes = DtypeSize(info.dtype);
  if (bytes == 0) throw FormatError("tensor " + info.name + " has unknown dtype " + info.dtype);
  for (const std::int64_t extent : info.shape) {
    if (extent < 0 || (extent > 0 && bytes > std::numeric_limits<std::size_t>::max() / 2 /
                                                 static_cast<std::size_t>(extent))) {
      throw DamagedError("tensor " + info.name + " has an impossible shape");
    }
    bytes *= static_cast<std::size_t>(extent);
  }
  return bytes;
}

TensorInfo ParseInfo(const std::string& name, const json& entry) {
  return {name, entry.at("dtype").get<std::string>(),
          entry.at("shape").get<std::vector<std::int64_t>>()};
}

}  // namespace

std::size_t DtypeSize(const std::string& dtype) {
  const DtypeInfo* const info = FindDtype(&DtypeInfo::safetensors, dtype);
  return info == nullptr ? 0 : info->size;
}

bool ComesFirst(const TensorInfo& a, const TensorInfo& b) {
  const std::size_t size_a = DtypeSize(a.dtype);
  const std::size_t size_b = DtypeSize(b.dtype);
  return std::tie(size_b, a.name) < std::tie(size_a, b.name);
}

std::string HashText(std::uint64_t xxh3) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, xxh3 >>= 4) {
    *digit = kDigits[xxh3 & 15];
  }
  return text;
}

void PadHeader(std::string* header, std::size_t size) {
  header->resize(size, ' ');
  WritePrefix(size - kPrefixBytes, header->data());
}

std::string BuildHeader(std::vector<TensorBytes>* tensors, Metadata metadata) {
  std::sort(tensors->begin(), tensors->end(),
            [](const TensorBytes& a, const TensorBytes& b) { return ComesFirst(a.info, b.info); });
  json header = json::object();
  json hashes = json::object();
  std::size_t offset = 0;
  for (const TensorBytes& tensor : *tensors) {
    header[tensor.info.name] = {{"dtype", tensor.info.dtype},
                                {"shape", tensor.info.shape},
                                {"data_offsets", {offset, offset + tensor.size}}};
    hashes[tensor.info.name] = Hash(tensor.data, tensor.size);
    offset += tensor.size;
  }
  metadata[kFormatKey] = kFormatVersion;
  metadata[kTensorHashes] = hashes.dump();
  header[kMetadata] = metadata;
  header[kMetadata][kHeaderHash] = HeaderHash(header);

  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string prefix(kPrefixBytes, '\0');
  WritePrefix(text.size(), prefix.data());
  return prefix + text;
}

SafetensorsFile SafetensorsFile::Open(const std::string& path, Check check) {
  SafetensorsFile file;
  file.file_ = MappedFile(path);
  try {
    file.Parse(check);
  } catch (const json::exception& e) {
    throw DamagedError(std::string("its header is not what it should be: ") + e.what());
  }
  return file;
}

void SafetensorsFile::Parse(Check check) {
  const std::size_t size = file_.bytes().size();
  if (size <= kPrefixBytes) {
    throw DamagedError("it is too short (" + std::to_string(size) + " bytes)");
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(file_.bytes().data());
  std::uint64_t header_size = 0;
  for (std::size_t i = 0; i < kPrefixBytes; ++i) {
    header_size |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  }
  if (header_size > kMaxHeaderBytes || header_size > size - kPrefixBytes) {
    throw DamagedError("it is too short for its header of " + std::to_string(header_size) +
                       " bytes, or no safetensors file");
  }
  const unsigned char* const data = bytes + kPrefixBytes + header_size;
  const std::size_t data_size = size - kPrefixBytes - header_size;
  const json header = json::parse(bytes + kPrefixBytes, data);
  metadata_ = header.value(kMetadata, Metadata());
  if (const auto version = metadata_.find(kFormatKey);
      version == metadata_.end() || version->second != kFormatVersion) {
    throw FormatError("its format version is " +
                      (version == metadata_.end() ? "missing" : version->second) + ", expected " +
                      kFormatVersion);
  }
  if (metadata_[kHeaderHash] != HeaderHash(header)) {
    throw DamagedError("its header has a wrong hash");
  }
  const json hashes = json::parse(metadata_[kTensorHashes]);
  std::map<std::string, std::string> hash_of;

  std::size_t total = 0;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    TensorBytes tensor{ParseInfo(name, entry), nullptr, 0};
    tensor.size = ExpectedBytes(tensor.info);
    const auto [begin, end] = entry.at("data_offsets").get<std::pair<std::size_t, std::size_t>>();
    if (begin > end || end - begin != tensor.size) {
      throw DamagedError("tensor " + name + " has offsets that do not fit its shape");
    }
    if (end > data_size) {
      throw DamagedError("it is too short: tensor " + name + " ends at byte " +
                         std::to_string(end) + " of " + std::to_string(data_size));
    }
    tensor.data = data + begin;
    hash_of[name] = hashes.at(name);
    total += tensor.size;
    tensors_.push_back(std::move(tensor));
  }
  if (total != data_size) {
    throw DamagedError("its tensors have " + std::to_string(total) + " bytes, but the file has " +
                       std::to_string(data_size));
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorBytes& a, const TensorBytes& b) {
    return std::tie(a.data, a.info.name) < std::tie(b.data, b.info.name);
  });
  const auto* next = reinterpret_cast<const unsigned char*>(data);
  for (const TensorBytes& tensor : tensors_) {
    if (tensor.data != next) throw DamagedError("tensor " + tensor.info.name + " overlaps another");
    next += tensor.size;
    hashes_.push_back(hash_of[tensor.info.name]);
  }
  if (check == Check::kStructure) return;
  for (std::size_t i = 0; i < tensors_.size(); ++i) Verify(i);
}

void SafetensorsFile::Verify(std::size_t index) const {
  const TensorBytes& tensor = tensors_[index];
  if (hashes_[index] == Hash(tensor.data, tensor.size)) return;
  throw DamagedError("tensor " + tensor.info.name + " has a wrong hash");
}

}  // namespace ddp::internal
