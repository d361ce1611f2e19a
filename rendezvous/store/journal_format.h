// The bytes of a rendezvous's journal: encoding and decoding of its parts.
// docs/internals/journal.md describes the format and its reasons.
//
// Pure: plain functions without state or I/O; any thread. Input may be anything; malformed input
// gives nullopt.
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
inline constexpr std::size_t kAlignment = 8;  // of the offset of every record
inline constexpr std::size_t kMaxBodyBytes = 0xFFFFFFF0;

struct FileHeader {
  std::uint32_t version = kVersion;
  std::uint64_t file_id = 0;         // random; seeds every checksum of the file
  std::uint64_t first_sequence = 1;  // sequence of the first record
  std::uint64_t named_bytes = 0;     // size of the file when it got its name: all was synced
  bool operator==(const FileHeader&) const = default;
};

enum class RecordType : std::uint32_t {
  kBatch = 1,  // writes, all or nothing
  kMark = 2,   // no body; says how many bytes are on the disk (`synced`)
};

struct RecordHeader {
  std::uint32_t body_bytes = 0;
  std::uint32_t type = 0;      // a RecordType, or a type of a later version
  std::uint64_t sequence = 0;  // number of the batch; of a mark: of the previous batch
  std::uint64_t synced = 0;    // bytes of the file that were durable before this record was written
  std::uint64_t body_checksum = 0;
  bool operator==(const RecordHeader&) const = default;
};

std::string EncodeFileHeader(const FileHeader& header);
// Accepts any version. nullopt: too short, wrong magic or wrong checksum.
std::optional<FileHeader> DecodeFileHeader(std::string_view file);

// Appends a complete record to `out`. A batch larger than kMaxBodyBytes is a bug of the caller.
void AppendBatch(std::uint64_t file_id, std::uint64_t sequence, std::uint64_t synced,
                 const Store::Batch& batch, std::string* out);
void AppendMark(std::uint64_t file_id, std::uint64_t sequence, std::uint64_t synced,
                std::string* out);

// Decodes the header at the beginning of `bytes`. nullopt: too short, or wrong checksum.
std::optional<RecordHeader> DecodeRecordHeader(std::uint64_t file_id, std::string_view bytes);

// Encodes a header with its checksum, for code that makes a record by hand.
std::string EncodeRecordHeader(std::uint64_t file_id, const RecordHeader& header);

// Size of the body with its padding.
std::size_t PaddedBytes(std::size_t body_bytes);

// Checksum of a body with its padding.
std::uint64_t BodyChecksum(std::uint64_t file_id, std::string_view padded_body);

// nullopt: `body` is not exactly the writes of a batch.
std::optional<Store::Batch> DecodeBatch(std::string_view body);

// Size of a write in a body.
std::size_t EncodedBytes(std::string_view key, std::size_t value_bytes);

}  // namespace ddprun::journal

#endif  // DDPRUN_RENDEZVOUS_STORE_JOURNAL_FORMAT_H_
