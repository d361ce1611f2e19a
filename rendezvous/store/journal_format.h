// The bytes of a rendezvous's journal: encoding and decoding of its parts.
// docs/internals/journal.md tells the format in prose, and why it is so.
//
// Pure: plain functions without state, any thread. They do no I/O; what they are given may be
// anything, and what is not well-formed comes back as nullopt.
#ifndef DDPRUN_RENDEZVOUS_STORE_JOURNAL_FORMAT_H_
#define DDPRUN_RENDEZVOUS_STORE_JOURNAL_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/store/store.h"

namespace ddprun::journal {

inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kFileHeaderBytes = 48;
inline constexpr std::size_t kRecordHeaderBytes = 40;
inline constexpr std::size_t kAlignment = 8;  // of every record's first byte
inline constexpr std::size_t kMaxBodyBytes = 0xFFFFFFF0;

struct FileHeader {
  std::uint32_t version = kVersion;
  std::uint64_t file_id = 0;         // random; seeds every checksum of the file
  std::uint64_t first_sequence = 1;  // of the first record
  std::uint64_t named_bytes = 0;     // the file's size when it got its name: all of that was synced
  bool operator==(const FileHeader&) const = default;
};

enum class RecordType : std::uint32_t {
  kBatch = 1,  // writes, all or nothing
  kMark = 2,   // no body: says only that what is before `synced` was synced
};

struct RecordHeader {
  std::uint32_t body_bytes = 0;
  std::uint32_t type = 0;      // a RecordType, if this version knows it
  std::uint64_t sequence = 0;  // a batch's own; a mark's is that of the batch before it
  std::uint64_t synced = 0;    // bytes of the file that were on disk before this was written
  std::uint64_t body_checksum = 0;
  bool operator==(const RecordHeader&) const = default;
};

std::string EncodeFileHeader(const FileHeader& header);
// nullopt: too short, another magic or a wrong checksum. Any version.
std::optional<FileHeader> DecodeFileHeader(std::string_view file);

// Append a whole record to `out`. A batch that needs more than kMaxBodyBytes is a bug of the
// caller.
void AppendBatch(std::uint64_t file_id, std::uint64_t sequence, std::uint64_t synced,
                 const Store::Batch& batch, std::string* out);
void AppendMark(std::uint64_t file_id, std::uint64_t sequence, std::uint64_t synced,
                std::string* out);

// The header that `bytes` begin with. nullopt: too short, or a wrong checksum.
std::optional<RecordHeader> DecodeRecordHeader(std::uint64_t file_id, std::string_view bytes);

// A header as bytes, with its checksum; for those who make a record by hand.
std::string EncodeRecordHeader(std::uint64_t file_id, const RecordHeader& header);

// Bytes of the body with its padding.
std::size_t PaddedBytes(std::size_t body_bytes);

// Of a body with its padding.
std::uint64_t BodyChecksum(std::uint64_t file_id, std::string_view padded_body);

// nullopt: not the writes of a batch, to the last byte.
std::optional<Store::Batch> DecodeBatch(std::string_view body);

// What a write takes in a body.
std::size_t EncodedBytes(std::string_view key, std::size_t value_bytes);

}  // namespace ddprun::journal

#endif  // DDPRUN_RENDEZVOUS_STORE_JOURNAL_FORMAT_H_
