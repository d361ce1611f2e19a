#include "worker/src/formats/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "worker/src/base/xxh3.h"
#include "worker/src/formats/dtype.h"

namespace ddp::internal {
namespace {

using nlohmann::json;

constexpr char kTensorHashes[] = "xxh3";
constexpr char kHeaderHash[] = "header_xxh3";
constexpr std::size_t kAlignment = 8;

std::string Hash(const void* data, std::size_t size) { return HashText(Xxh3(data, size)); }

void WritePrefix(std::size_t header_size, char* to) {
  for (std::size_t i = 0; i < kSafetensorsPrefixBytes; ++i) {
    to[i] = static_cast<char>(header_size >> (8 * i) & 0xff);
  }
}

// The hash of a header without its own entry. json sorts keys, so the text is always the same.
std::string HeaderHash(json header) {
  header[kSafetensorsMetadata].erase(kHeaderHash);
  const std::string text = header.dump();
  return Hash(text.data(), text.size());
}

// True if the header matches its hash.
bool HasItsHash(std::string_view text) {
  const json header = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json::json_pointer hash(std::string("/") + kSafetensorsMetadata + "/" + kHeaderHash);
  return !header.is_discarded() && header.contains(hash) && header[hash] == HeaderHash(header);
}

// Like ReadSafetensorsHeader(), but an unreadable header counts as damaged unless it matches its
// hash.
SafetensorsHeader ReadHeader(std::string_view text) {
  try {
    return ReadSafetensorsHeader(text);
  } catch (const FormatError& e) {
    if (HasItsHash(text)) throw;
    throw DamagedError(e.what());
  }
}

// The text of the header, including spaces at the end.
std::string ReadHeaderText(InputFile* file) {
  std::string front(std::min<std::uint64_t>(file->size(), kSafetensorsPrefixBytes), '\0');
  file->Read(0, front.data(), front.size());
  std::string text(SafetensorsHeaderBytes(front, file->size()), '\0');
  file->Read(kSafetensorsPrefixBytes, text.data(), text.size());
  return text;
}

void CheckVersion(const Metadata& metadata) {
  const auto version = metadata.find(kFormatKey);
  if (version != metadata.end() && version->second == kFormatVersion) return;
  throw FormatError("its format version is " +
                    (version == metadata.end() ? "missing" : version->second) + ", expected " +
                    kFormatVersion);
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
  WritePrefix(size - kSafetensorsPrefixBytes, header->data());
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
  header[kSafetensorsMetadata] = metadata;
  header[kSafetensorsMetadata][kHeaderHash] = HeaderHash(header);

  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string prefix(kSafetensorsPrefixBytes, '\0');
  WritePrefix(text.size(), prefix.data());
  return prefix + text;
}

std::optional<Metadata> MetadataOfHeader(const std::string& path) {
  try {
    InputFile file(path);
    const std::string text = ReadHeaderText(&file);
    if (!HasItsHash(text)) return std::nullopt;
    return ReadSafetensorsHeader(text).metadata;
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

SafetensorsFile SafetensorsFile::Open(const std::string& path) {
  SafetensorsFile file;
  file.content_ = std::make_shared<InputFile>(path);
  try {
    file.Parse();
  } catch (const json::exception& e) {
    throw DamagedError(std::string("its hashes are not what they should be: ") + e.what());
  }
  return file;
}

void SafetensorsFile::Parse() {
  const std::string text = ReadHeaderText(content_.get());
  SafetensorsHeader header = ReadHeader(text);
  CheckVersion(header.metadata);
  if (!HasItsHash(text)) throw DamagedError("its header has a wrong hash");
  const json hashes = json::parse(header.metadata[kTensorHashes]);
  metadata_ = header.metadata;
  const std::uint64_t data = kSafetensorsPrefixBytes + text.size();
  for (TensorExtent& extent : ExtentsOf(std::move(header), content_->size() - data)) {
    const std::string& hash = hashes.at(extent.name).get_ref<const std::string&>();
    tensors_.push_back(
        {{std::move(extent.name), std::string(extent.dtype->safetensors), std::move(extent.shape)},
         data + extent.begin,
         extent.size,
         hash});
  }
}

}  // namespace ddp::internal
