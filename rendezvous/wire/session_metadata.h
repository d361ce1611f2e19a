// What the call of a session says of itself, as proto/ddprun/v1/rendezvous.proto has it.
#ifndef DDPRUN_RENDEZVOUS_WIRE_SESSION_METADATA_H_
#define DDPRUN_RENDEZVOUS_WIRE_SESSION_METADATA_H_

namespace ddprun::wire {

// It waits where the rendezvous stands by.
inline constexpr char kWaitsMetadata[] = "ddprun-waits";
inline constexpr char kWaits[] = "1";

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_SESSION_METADATA_H_
