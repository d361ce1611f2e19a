// BenchServer: the server of a benchmark, in a process of its own. The server is `ddprun
// rendezvous`, or the floor server to which the benchmark compares it (floor_server.h). Also
// helpers of benchmarks to connect to a server.
#ifndef DDPRUN_TESTS_BENCH_BENCH_SERVER_H_
#define DDPRUN_TESTS_BENCH_BENCH_SERVER_H_

#include <grpcpp/grpcpp.h>
#include <time.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/auth/client_credentials.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace ddprun {

// Seconds of CPU time.
double CpuSeconds(clockid_t clock);

class BenchServer {
 public:
  // The program of `argv` must take --port-file and print "listening". Returns when the server
  // listens; ends this program if that takes a minute. The server ends with this process at the
  // latest.
  explicit BenchServer(std::vector<std::string> argv);
  ~BenchServer();

  std::string endpoint() const;
  // The port of the page; `argv` must have --http.
  int http_port() const;
  double cpu_seconds() const { return CpuSeconds(clock_); }
  // Resident memory: now, and the maximum since ForgetPeak().
  double rss_mib() const;
  double peak_mib() const;
  void ForgetPeak() const;

 private:
  TempDir folder_;
  std::optional<Program> program_;
  int port_ = 0;
  clockid_t clock_{};
};

// `ddprun rendezvous` on a free port of `address`, with these further arguments.
std::vector<std::string> RendezvousCommand(const std::vector<std::string>& arguments,
                                           const std::string& ddprun = DDPRUN_BIN_DIR "/ddprun",
                                           const std::string& address = "127.0.0.1");

// Opens this many connections. Ends the program if one needs more than a minute.
std::vector<std::shared_ptr<grpc::Channel>> OpenChannels(
    const std::string& endpoint, int count, const auth::ClientCredentials* credentials);

// Returns when the rendezvous at `endpoint` leads; ends the program if that takes a minute.
void AwaitLeader(const std::string& endpoint, const auth::ClientCredentials* credentials);

// Raises the limit of descriptors for thousands of connections.
void RaiseDescriptorLimit();

}  // namespace ddprun

#endif  // DDPRUN_TESTS_BENCH_BENCH_SERVER_H_
