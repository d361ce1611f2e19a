// Reads a journal: returns its entries and the end of its valid part, or why it cannot be trusted.
//
// Pure: bytes in, contents or an error out; any thread.
#ifndef DDPRUN_RENDEZVOUS_STORE_JOURNAL_READER_H_
#define DDPRUN_RENDEZVOUS_STORE_JOURNAL_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ddprun::journal {

struct Contents {
  std::map<std::string, std::string> entries;
  std::uint64_t file_id = 0;
  std::uint64_t next_sequence = 1;
  std::uint64_t batches = 0;
  std::uint64_t valid_bytes = 0;  // the bytes after them are the torn tail, to be cut off
  std::uint64_t torn_bytes = 0;
};

// `file`: the complete journal. `path`: its name for errors.
//
// An incomplete record is the torn tail of an interrupted write, and ends the journal. But if the
// file's header (named_bytes) or a later record (synced) shows that the record was once complete on
// disk, the file was damaged later. docs/internals/journal.md has the reasons.
//
// Errors name the file, the offset and the remedy. DataLoss: damaged. FailedPrecondition: written
// by another version.
absl::StatusOr<Contents> Read(std::string_view file, const std::string& path);

}  // namespace ddprun::journal

#endif  // DDPRUN_RENDEZVOUS_STORE_JOURNAL_READER_H_
