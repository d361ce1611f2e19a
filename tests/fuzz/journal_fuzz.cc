// Any file is a journal, or is refused with an offset inside the file. Records that are read,
// written and read again are the same. The part of a file that was read is a journal by itself.
//
// Checksums expose nearly every change that a fuzzer makes. So the first byte of an input chooses:
//   even   the rest is the file, as it is
//   odd    the rest is the file; its checksums are corrected, as far as its lengths are valid
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rendezvous/store/journal_format.h"
#include "rendezvous/store/journal_reader.h"
#include "rendezvous/store/store.h"
#include "tests/fuzz/require.h"

namespace ddprun::journal {
namespace {

std::uint64_t Number(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < size; ++i) {
    number |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return number;
}

// The layout of docs/internals/journal.md, written down a second time.
void RepairChecksums(std::string* file) {
  if (file->size() < kFileHeaderBytes) return;
  FileHeader header;
  header.version = static_cast<std::uint32_t>(Number(*file, 8, 4));
  header.file_id = Number(*file, 16, 8);
  header.first_sequence = Number(*file, 24, 8);
  header.named_bytes = Number(*file, 32, 8);
  file->replace(0, kFileHeaderBytes, EncodeFileHeader(header));
  std::size_t at = kFileHeaderBytes;
  while (file->size() - at >= kRecordHeaderBytes) {
    RecordHeader record;
    record.body_bytes = static_cast<std::uint32_t>(Number(*file, at + 8, 4));
    record.type = static_cast<std::uint32_t>(Number(*file, at + 12, 4));
    record.sequence = Number(*file, at + 16, 8);
    record.synced = Number(*file, at + 24, 8);
    const std::size_t padded = PaddedBytes(record.body_bytes);
    if (file->size() - at - kRecordHeaderBytes < padded) return;
    record.body_checksum = BodyChecksum(
        header.file_id, std::string_view(*file).substr(at + kRecordHeaderBytes, padded));
    file->replace(at, kRecordHeaderBytes, EncodeRecordHeader(header.file_id, record));
    at += kRecordHeaderBytes + padded;
  }
}

std::string WriteAgain(const Contents& contents) {
  Store::Batch batch;
  for (const auto& [key, value] : contents.entries) batch.push_back({key, value});
  std::string file(kFileHeaderBytes, '\0');
  AppendBatch(contents.file_id, contents.next_sequence, 0, batch, &file);
  FileHeader header;
  header.file_id = contents.file_id;
  header.first_sequence = contents.next_sequence;
  header.named_bytes = file.size();
  return file.replace(0, kFileHeaderBytes, EncodeFileHeader(header));
}

void Check(const std::string& file) {
  const absl::StatusOr<Contents> contents = Read(file, "j");
  if (!contents.ok()) {
    const std::string error(contents.status().message());
    Require(absl::IsDataLoss(contents.status()) || absl::IsFailedPrecondition(contents.status()),
            "a refusal is DataLoss or FailedPrecondition", error);
    const std::size_t place = error.find("at byte ");
    Require(error.rfind("j: ", 0) == 0 && place != std::string::npos, "a refusal has a place",
            error);
    Require(std::strtoull(error.c_str() + place + 8, nullptr, 10) <= file.size(),
            "a refusal's place is in the file", error);
    return;
  }
  Require(contents->valid_bytes + contents->torn_bytes == file.size(), "every byte is counted");
  const absl::StatusOr<Contents> again = Read(WriteAgain(*contents), "j");
  Require(again.ok(), "what was read can be written again", again.status().ToString());
  Require(again->entries == contents->entries, "what is written again is the same");
  const absl::StatusOr<Contents> cut = Read(file.substr(0, contents->valid_bytes), "j");
  Require(cut.ok(), "without its torn tail a journal is read", cut.status().ToString());
  Require(cut->entries == contents->entries && cut->torn_bytes == 0 &&
              cut->next_sequence == contents->next_sequence,
          "without its torn tail a journal is the same");
}

}  // namespace
}  // namespace ddprun::journal

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) != 0) ddprun::journal::RepairChecksums(&file);
  ddprun::journal::Check(file);
  return 0;
}
