// The floor server: the least cost of any rendezvous over gRPC. A bare callback server knows
// nothing about jobs. It answers these messages, with answers as large as those of the rendezvous:
//
//     Handshake        → a proof of the token, if there is one; the caller's proof is not checked
//     Join, Stopped    → an Assignment on this stream (see FloorServerOptions::barrier)
//     AssignmentAck    → a Start on this stream (barrier, too)
//     WorkerExited     → a Stop on every stream that is open
//
// Like the rendezvous, it probes no bandwidth and allows the agents' keepalive pings. It has no
// further channel arguments: it sends no pings itself, and does not limit connections.
#ifndef DDPRUN_TESTS_BENCH_FLOOR_SERVER_H_
#define DDPRUN_TESTS_BENCH_FLOOR_SERVER_H_

#include <cstddef>
#include <string>

namespace ddprun {

struct FloorServerOptions {
  // Sizes of the serialized answers: text is added until they have this size.
  std::size_t assignment_bytes = 0;
  std::size_t start_bytes = 0;
  std::size_t stop_bytes = 0;
  // 0: answers each Join, AssignmentAck or Stopped at once. Otherwise waits for this many messages,
  // and then answers all of them. Any rendezvous must wait: no agent has a rank before all agents
  // have joined.
  int barrier = 0;
  std::string port_file;  // gets the port, on loopback
  // PEM files. If given, the server uses TLS and asks every agent for a certificate.
  std::string tls_ca{};
  std::string tls_cert{};
  std::string tls_key{};
  // If given, the server uses TLS with a self-signed certificate.
  std::string token_file{};
};

// Serves until SIGTERM. Returns the exit code.
int ServeFloor(const FloorServerOptions& options);

}  // namespace ddprun

#endif  // DDPRUN_TESTS_BENCH_FLOOR_SERVER_H_
