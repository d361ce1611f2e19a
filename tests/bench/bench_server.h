// The server that a benchmark loads, in its own process: `ddprun rendezvous`, or the floor that it
// is compared with. Also what a benchmark needs to connect to it.
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
  // `argv` must take --port-file and print "listening". Returns when the server listens; ends the
  // program where it does not. The server ends with this process at the latest.
  explicit BenchServer(std::vector<std::string> argv);
  ~BenchServer();

  std::string endpoint() const;
  // Of the page, where it was given --http.
  int http_port() const;
  double cpu_seconds() const { return CpuSeconds(clock_); }
  // Resident memory: now, and the most since ForgetPeak().
  double rss_mib() const;
  double peak_mib() const;
  void ForgetPeak() const;

 private:
  TempDir folder_;
  std::optional<Program> program_;
  int port_ = 0;
  clockid_t clock_{};
};

// `ddprun rendezvous` on a free port of `address`, and what else `arguments` say.
std::vector<std::string> RendezvousCommand(const std::vector<std::string>& arguments,
                                           const std::string& ddprun = DDPRUN_BIN_DIR "/ddprun",
                                           const std::string& address = "127.0.0.1");

// So many connections, open. Ends the program where that takes a minute.
std::vector<std::shared_ptr<grpc::Channel>> OpenChannels(
    const std::string& endpoint, int count, const auth::ClientCredentials* credentials);

// Returns when the rendezvous there, one of several, leads; ends the program where it does not.
void AwaitLeader(const std::string& endpoint, const auth::ClientCredentials* credentials);

// Thousands of connections need descriptors.
void RaiseDescriptorLimit();

}  // namespace ddprun

#endif  // DDPRUN_TESTS_BENCH_BENCH_SERVER_H_
