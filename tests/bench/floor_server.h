// The floor server: the least cost of any rendezvous over gRPC. A bare callback server answers each
// message with one as large as the rendezvous' answer, and knows nothing about jobs.
//
//     Handshake        → a proof of the token, if there is one; the caller's proof is not checked
//     Join, Stopped    → an Assignment on this stream (see FloorServerOptions::barrier)
//     AssignmentAck    → a Start on this stream (the same)
//     WorkerExited     → a Stop on every stream that is open
//
// Its channel arguments are those of the rendezvous, so that every difference comes from the
// rendezvous' own code.
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
  // 0: answers each Join, AssignmentAck or Stopped at once. Else answers them together once this
  // many have come, as any rendezvous must: no agent has a rank before all have joined.
  int barrier = 0;
  std::string port_file;  // gets the port, on loopback
  // PEM files; if given, it uses TLS and asks every agent for a certificate.
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
