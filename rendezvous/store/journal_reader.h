// Reads a journal: what it holds, where its good part ends, or why it is not to be trusted.
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
  std::uint64_t valid_bytes = 0;  // what is behind them is the torn tail, to be cut off
  std::uint64_t torn_bytes = 0;
};

// `file` is all of the journal; `path` names it in errors.
//
// A record that is not whole is the torn tail of an interrupted write, and ends the journal, unless
// something says that it was on disk once: then the file was damaged later. What says so is the
// file's header (named_bytes) or any record behind it (synced). docs/internals/journal.md has the
// reasons.
//
// Errors name the file and the offset, and say what to do. DataLoss: damaged. FailedPrecondition:
// written by another version.
absl::StatusOr<Contents> Read(std::string_view file, const std::string& path);

}  // namespace ddprun::journal

#endif  // DDPRUN_RENDEZVOUS_STORE_JOURNAL_READER_H_
