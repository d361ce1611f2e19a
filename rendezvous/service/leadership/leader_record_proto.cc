#include "rendezvous/service/leadership/leader_record_proto.h"

#include <chrono>
#include <cstdint>

#include "ddprun/v1/leader.pb.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostIdBytes = 64;
constexpr std::size_t kMostEndpointBytes = 300;
constexpr std::int64_t kMostValidityMs = 3'600'000;

std::int64_t Milliseconds(Duration duration) {
  return std::chrono::ceil<std::chrono::milliseconds>(duration).count();
}

bool IsValidity(std::int64_t ms) { return ms >= 0 && ms <= kMostValidityMs; }

}  // namespace

std::string EncodeLeaderRecord(const LeaderRecord& record) {
  v1::LeaderRecord message;
  message.set_id(record.id);
  message.set_endpoint(record.endpoint);
  message.set_validity_ms(Milliseconds(record.validity));
  message.set_longest_validity_ms(Milliseconds(record.longest_validity));
  message.set_resigned(record.resigned);
  message.set_complete_in(record.complete_in);
  return message.SerializeAsString();
}

std::optional<LeaderRecord> DecodeLeaderRecord(const std::string& bytes) {
  v1::LeaderRecord message;
  if (!message.ParseFromString(bytes)) return std::nullopt;
  if (message.id().empty() || message.id().size() > kMostIdBytes ||
      message.endpoint().size() > kMostEndpointBytes || !IsValidity(message.validity_ms()) ||
      !IsValidity(message.longest_validity_ms())) {
    return std::nullopt;
  }
  LeaderRecord record;
  record.id = message.id();
  record.endpoint = message.endpoint();
  record.validity = std::chrono::milliseconds(message.validity_ms());
  record.longest_validity = std::chrono::milliseconds(message.longest_validity_ms());
  record.resigned = message.resigned();
  record.complete_in = message.complete_in();
  return record;
}

}  // namespace ddprun
