#include "tests/chaos/hostile/live_job.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "rendezvous/auth/certificates.h"
#include "tests/support/program.h"

namespace ddprun {

namespace {

bool Fail(const char* why) {
  std::printf("%s\n", why);
  return false;
}

}  // namespace

std::vector<std::string> TlsFlags(const std::string& folder) {
  return {"--tls-ca",           folder + "/ca.crt", "--tls-cert",
          folder + "/node.crt", "--tls-key",        folder + "/node.key"};
}

LiveJob::LiveJob(const std::string& folder, const std::vector<std::string>& daemon_flags,
                 const std::vector<std::string>& agent_flags, const std::string& host)
    : folder_(folder), daemon_(folder, daemon_flags, host), job_(folder) {
  for (int node = 0; node < 2; ++node) {
    auto flags = agent_flags;
    flags.insert(flags.end(), {"--rdzv-endpoint", daemon_.endpoint(), "--rdzv-id", "live",
                               "--nnodes", "2", "--nproc-per-node", "2", "sh", "-c",
                               "echo up; while [ ! -e " + folder +
                                   "/end ]; do sleep 0.05; done; exit $DDPRUN_GENERATION"});
    job_.AddNode(flags);
  }
  for (int node = 0; node < 2; ++node) {
    if (!job_.node(node).WaitForOut("up")) {
      throw std::runtime_error("the job does not start: " + job_.node(node).err());
    }
  }
}

void LiveJob::RestartDaemon() {
  daemon_.Kill();
  daemon_.Start();
}

int LiveJob::Descriptors() const {
  int count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(daemon_pid()) + "/fd")) {
    ++count;
  }
  return count;
}

long LiveJob::RssKib() const {
  std::ifstream status("/proc/" + std::to_string(daemon_pid()) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stol(line.substr(6));
  }
  return 0;
}

int LiveJob::DescriptorsAtRest(int expected) const {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (Descriptors() > expected && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // /proc/PID/fd reports no changes
  }
  return Descriptors();
}

bool LiveJob::EndsWell() {
  std::ofstream(folder_ + "/end") << "";
  bool well = true;
  for (int node = 0; node < 2; ++node) {
    const int code = job_.node(node).ExitCode();
    const bool alone = job_.node(node).err().find("generation 1") == std::string::npos;
    if (code != 0 || !alone) {
      std::printf("agent %d ended with %d:\n%s\n", node, code, job_.node(node).err().c_str());
      well = false;
    }
  }
  return well;
}

BriefJob::BriefJob(const std::string& folder, std::chrono::seconds start)
    : certificates_(folder + "/certs"), lifetime_(kShortest + 4 * start) {
  made_ = Make("node", lifetime_);
  job_.emplace(folder, TlsFlags(certificates_), TlsFlags(certificates_));
}

bool BriefJob::RenewInMidJob() {
  std::this_thread::sleep_until(made_ + lifetime_ + std::chrono::seconds(1));
  if (Status() == 0) return Fail("a certificate that has expired is taken");
  Make("renewed", std::chrono::hours(24));
  for (const std::string suffix : {".crt", ".key"}) {
    std::filesystem::rename(certificates_ + "/renewed" + suffix, certificates_ + "/node" + suffix);
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (Status() != 0) {
    if (std::chrono::steady_clock::now() > deadline)
      return Fail("the daemon does not show its new certificate");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // only a new handshake shows it
  }
  job_->RestartDaemon();
  return true;
}

std::chrono::system_clock::time_point BriefJob::Make(const std::string& node,
                                                     std::chrono::seconds lifetime) const {
  const auto made = auth::MakeCertificates({certificates_, "ann", {{node}}, lifetime});
  if (!made.ok()) std::printf("%s\n", made.status().ToString().c_str());
  return std::chrono::system_clock::now();
}

int BriefJob::Status() const {
  std::vector<std::string> argv = {DdprunPath(), "status", "--rdzv-endpoint", job_->endpoint()};
  const auto flags = TlsFlags(certificates_);
  argv.insert(argv.end(), flags.begin(), flags.end());
  return Program(argv).ExitCode();
}

}  // namespace ddprun
