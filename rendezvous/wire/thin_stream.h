// TCP sends again what was not acknowledged, and doubles its patience each time: after 0.2 s, 0.6
// s, 1.4 s, 3 s. A link that comes back after a second is found out only long after that, and a
// lease of 3 s may be over by then. For streams as thin as a session Linux can keep to the same
// interval, for the first six times (TCP_THIN_LINEAR_TIMEOUTS in tcp(7)).
#ifndef DDPRUN_RENDEZVOUS_WIRE_THIN_STREAM_H_
#define DDPRUN_RENDEZVOUS_WIRE_THIN_STREAM_H_

namespace ddprun {

// For this socket; a listening one hands it on to its connections. Others than TCP's stay as they
// are.
void SendAgainSteadily(int fd);

// For all TCP connections of this process, because gRPC does not show its own: an agent has no
// others. Any thread. Nothing happens to those that end meanwhile.
void SendAgainSteadily();

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_WIRE_THIN_STREAM_H_
