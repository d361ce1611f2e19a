#include "rendezvous/store/journal_format.h"

#include <cstring>

#include "rendezvous/core/check.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ddprun::journal {
namespace {

constexpr std::string_view kMagic("ddprunJ\n", 8);
constexpr std::uint32_t kErased = 0xFFFFFFFF;  // replaces a value's length
constexpr std::size_t kCountBytes = 4;
constexpr std::size_t kLengthsBytes = 8;

// Little-endian on every machine.
template <class Number>
void Put(Number number, std::string* out) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    out->push_back(static_cast<char>(number >> (8 * i) & 0xFF));
  }
}

template <class Number>
Number Get(std::string_view bytes, std::size_t offset) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    number |= static_cast<Number>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  }
  return number;
}

std::uint64_t Checksum(std::uint64_t seed, std::string_view bytes) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace

std::string EncodeFileHeader(const FileHeader& header) {
  std::string out(kMagic);
  Put<std::uint32_t>(header.version, &out);
  Put<std::uint32_t>(0, &out);
  Put<std::uint64_t>(header.file_id, &out);
  Put<std::uint64_t>(header.first_sequence, &out);
  Put<std::uint64_t>(header.named_bytes, &out);
  Put<std::uint64_t>(Checksum(0, out), &out);
  return out;
}

std::optional<FileHeader> DecodeFileHeader(std::string_view file) {
  if (file.size() < kFileHeaderBytes || file.substr(0, kMagic.size()) != kMagic) return {};
  const std::size_t checked = kFileHeaderBytes - 8;
  if (Get<std::uint64_t>(file, checked) != Checksum(0, file.substr(0, checked))) return {};
  FileHeader header;
  header.version = Get<std::uint32_t>(file, 8);
  header.file_id = Get<std::uint64_t>(file, 16);
  header.first_sequence = Get<std::uint64_t>(file, 24);
  header.named_bytes = Get<std::uint64_t>(file, 32);
  return header;
}

std::string EncodeRecordHeader(std::uint64_t file_id, const RecordHeader& header) {
  std::string fields;
  Put<std::uint32_t>(header.body_bytes, &fields);
  Put<std::uint32_t>(header.type, &fields);
  Put<std::uint64_t>(header.sequence, &fields);
  Put<std::uint64_t>(header.synced, &fields);
  Put<std::uint64_t>(header.body_checksum, &fields);
  std::string out;
  Put<std::uint64_t>(Checksum(file_id, fields), &out);
  return out + fields;
}

std::optional<RecordHeader> DecodeRecordHeader(std::uint64_t file_id, std::string_view bytes) {
  if (bytes.size() < kRecordHeaderBytes) return {};
  const std::string_view fields = bytes.substr(8, kRecordHeaderBytes - 8);
  if (Get<std::uint64_t>(bytes, 0) != Checksum(file_id, fields)) return {};
  RecordHeader header;
  header.body_bytes = Get<std::uint32_t>(bytes, 8);
  header.type = Get<std::uint32_t>(bytes, 12);
  header.sequence = Get<std::uint64_t>(bytes, 16);
  header.synced = Get<std::uint64_t>(bytes, 24);
  header.body_checksum = Get<std::uint64_t>(bytes, 32);
  return header;
}

std::size_t PaddedBytes(std::size_t body_bytes) {
  return (body_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Seeded differently from headers: otherwise a checksum followed by a body of a header's size would
// look like a header.
std::uint64_t BodyChecksum(std::uint64_t file_id, std::string_view padded_body) {
  return Checksum(~file_id, padded_body);
}

std::size_t EncodedBytes(std::string_view key, std::size_t value_bytes) {
  return kLengthsBytes + key.size() + value_bytes;
}

void AppendBatch(std::uint64_t file_id, std::uint64_t sequence, std::uint64_t synced,
                 const Store::Batch& batch, std::string* out) {
  std::size_t body_bytes = kCountBytes;
  for (const Store::Write& write : batch) {
    body_bytes += EncodedBytes(write.key, write.value ? write.value->size() : 0);
  }
  DDPRUN_CHECK(body_bytes <= kMaxBodyBytes, "a batch of 4 GiB");
  // Writes the body first, after room for its header.
  const std::size_t start = out->size();
  out->append(kRecordHeaderBytes, '\0');
  Put<std::uint32_t>(static_cast<std::uint32_t>(batch.size()), out);
  for (const Store::Write& write : batch) {
    Put<std::uint32_t>(static_cast<std::uint32_t>(write.key.size()), out);
    Put<std::uint32_t>(write.value ? static_cast<std::uint32_t>(write.value->size()) : kErased,
                       out);
    out->append(write.key);
    if (write.value) out->append(*write.value);
  }
  out->append(PaddedBytes(body_bytes) - body_bytes, '\0');
  RecordHeader header;
  header.body_bytes = static_cast<std::uint32_t>(body_bytes);
  header.type = static_cast<std::uint32_t>(RecordType::kBatch);
  header.sequence = sequence;
  header.synced = synced;
  header.body_checksum =
      BodyChecksum(file_id, std::string_view(*out).substr(start + kRecordHeaderBytes));
  out->replace(start, kRecordHeaderBytes, EncodeRecordHeader(file_id, header));
}

void AppendMark(std::uint64_t file_id, std::uint64_t sequence, std::uint64_t synced,
                std::string* out) {
  RecordHeader header;
  header.type = static_cast<std::uint32_t>(RecordType::kMark);
  header.sequence = sequence;
  header.synced = synced;
  header.body_checksum = BodyChecksum(file_id, {});
  out->append(EncodeRecordHeader(file_id, header));
}

std::optional<Store::Batch> DecodeBatch(std::string_view body) {
  if (body.size() < kCountBytes) return {};
  const std::uint32_t count = Get<std::uint32_t>(body, 0);
  body.remove_prefix(kCountBytes);
  if (count > body.size() / kLengthsBytes) return {};
  Store::Batch batch;
  batch.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (body.size() < kLengthsBytes) return {};
    const std::size_t key_bytes = Get<std::uint32_t>(body, 0);
    const std::uint32_t value_length = Get<std::uint32_t>(body, 4);
    const std::size_t value_bytes = value_length == kErased ? 0 : value_length;
    body.remove_prefix(kLengthsBytes);
    if (body.size() < key_bytes || body.size() - key_bytes < value_bytes) return {};
    Store::Write& write = batch.emplace_back();
    write.key = body.substr(0, key_bytes);
    if (value_length != kErased) write.value.emplace(body.substr(key_bytes, value_bytes));
    body.remove_prefix(key_bytes + value_bytes);
  }
  if (!body.empty()) return {};
  return batch;
}

}  // namespace ddprun::journal
