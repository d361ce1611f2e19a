// Translates JobRecord to and from the values of a Store (proto/ddprun/v1/journal.proto).
//
// Thread-safe: plain functions without state.
#ifndef DDPRUN_RENDEZVOUS_WIRE_RECORD_H_
#define DDPRUN_RENDEZVOUS_WIRE_RECORD_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "rendezvous/machine/job_record.h"

namespace ddprun::wire {

// The key of a job's record, and the job's name from such a key; nullopt: another kind of key.
std::string JobKey(const std::string& job);
std::optional<std::string> JobOfKey(const std::string& key);

struct OwnedRecord {
  std::string owner;  // the principal of the job's first Join; empty: no credentials were asked for
  JobRecord record;
};

std::string EncodeRecord(const std::string& owner, const JobRecord& record);

// Checks every field. Error: DataLoss that names the field, or says that `bytes` are no record.
absl::StatusOr<OwnedRecord> DecodeRecord(const std::string& bytes);

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_RECORD_H_
