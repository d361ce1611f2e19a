// LeaderRecord to and from the value of etcd's leader key (proto/ddprun/v1/leader.proto).
//
// Thread-safe: plain functions without state.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADER_RECORD_PROTO_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADER_RECORD_PROTO_H_

#include <optional>
#include <string>

#include "rendezvous/leadership/leader_record.h"

namespace ddprun {

std::string EncodeLeaderRecord(const LeaderRecord& record);

// nullopt: not such a record, or a field is out of its bounds.
std::optional<LeaderRecord> DecodeLeaderRecord(const std::string& bytes);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADER_RECORD_PROTO_H_
