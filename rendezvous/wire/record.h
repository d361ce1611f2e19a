// core/job_record.h to and from the values of a Store (proto/ddprun/v1/journal.proto).
//
// Thread-safe: plain functions without state.
#ifndef DDPRUN_RENDEZVOUS_WIRE_RECORD_H_
#define DDPRUN_RENDEZVOUS_WIRE_RECORD_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "rendezvous/machine/job_record.h"

namespace ddprun::wire {

// The key of a job's record, and the job's name from a key; nullopt for a key of something else.
std::string JobKey(const std::string& job);
std::optional<std::string> JobOfKey(const std::string& key);

struct OwnedRecord {
  std::string owner;  // the principal of the job's first Join; empty: nobody was asked who he is
  JobRecord record;
};

std::string EncodeRecord(const std::string& owner, const JobRecord& record);

// Checks every field, as if it came from a stranger. Error: DataLoss that names the field.
absl::StatusOr<OwnedRecord> DecodeRecord(const std::string& bytes);

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_RECORD_H_
