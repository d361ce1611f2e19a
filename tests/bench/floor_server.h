// The least that any rendezvous over gRPC can cost: a bare callback server that answers each
// message with one of the same size as the rendezvous's, and knows nothing of jobs.
//
//     Handshake        → a proof of the token, where there is one; the caller's is not looked at
//     Join, Stopped    → an Assignment on this stream (see Options::barrier)
//     AssignmentAck         → a Start on this stream (the same)
//     WorkerExited     → a Stop on every stream that is open
//
// Channel arguments that cost or save time are the rendezvous's own, so that a difference is ours.
#ifndef DDPRUN_TESTS_BENCH_FLOOR_SERVER_H_
#define DDPRUN_TESTS_BENCH_FLOOR_SERVER_H_

#include <cstddef>
#include <string>

namespace ddprun {

struct FloorServerOptions {
  // Of the answers, serialized: text is added until they have this size.
  std::size_t assignment_bytes = 0;
  std::size_t start_bytes = 0;
  std::size_t stop_bytes = 0;
  // Answers a Join, AssignmentAck or Stopped at once when 0; else all of them together, when so
  // many have come: as any rendezvous must, since nobody has a rank before all are there.
  int barrier = 0;
  std::string port_file;  // gets the port, on loopback
  // PEM files; where they are given it speaks TLS, and asks every agent for a certificate.
  std::string tls_ca{};
  std::string tls_cert{};
  std::string tls_key{};
  // Where it is given the floor speaks TLS with a certificate of its own making.
  std::string token_file{};
};

// Serves until SIGTERM. Returns the exit code.
int ServeFloor(const FloorServerOptions& options);

}  // namespace ddprun

#endif  // DDPRUN_TESTS_BENCH_FLOOR_SERVER_H_
