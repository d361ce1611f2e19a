#include "tests/bench/bench_server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rendezvous/client/channel.h"

namespace ddprun {
namespace {

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

// The MiB in a line "VmHWM:    1234 kB" with this field; nothing for other lines.
std::optional<double> MibOf(absl::string_view line, absl::string_view field) {
  long kib = 0;
  if (!absl::ConsumePrefix(&line, field) || !absl::ConsumeSuffix(&line, " kB")) return {};
  if (!absl::SimpleAtoi(line, &kib)) return {};
  return static_cast<double>(kib) / 1024;
}

}  // namespace

double CpuSeconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

BenchServer::BenchServer(std::vector<std::string> argv) {
  argv.insert(argv.end(), {"--port-file", folder_ / "port"});
  // The server must not outlive this process, however this process ends.
  argv.insert(argv.begin(), {"/usr/bin/setpriv", "--pdeathsig", "KILL", "--"});
  program_.emplace(std::move(argv));
  if (!program_->WaitForOut("listening")) {
    Die(absl::StrCat("the server does not start: ", program_->err()));
  }
  std::ifstream(folder_ / "port") >> port_;
  clock_getcpuclockid(program_->pid(), &clock_);
}

BenchServer::~BenchServer() {
  program_->Signal(SIGTERM);
  program_->Wait();
}

std::string BenchServer::endpoint() const { return absl::StrCat("127.0.0.1:", port_); }

int BenchServer::http_port() const {
  static constexpr char kPage[] = "page on http://127.0.0.1:";
  if (!program_->WaitForOut(kPage)) Die(absl::StrCat("there is no page: ", program_->err()));
  const std::string out = program_->out();
  return std::stoi(out.substr(out.find(kPage) + sizeof kPage - 1));
}

double BenchServer::rss_mib() const {
  std::ifstream statm(absl::StrCat("/proc/", program_->pid(), "/statm"));
  long size = 0;
  long resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double BenchServer::peak_mib() const {
  for (const std::string& line : ReadLines(absl::StrCat("/proc/", program_->pid(), "/status"))) {
    if (const auto mib = MibOf(line, "VmHWM:")) return *mib;
  }
  Die("the kernel does not say the peak of a process's memory");
}

void BenchServer::ForgetPeak() const {
  std::ofstream file(absl::StrCat("/proc/", program_->pid(), "/clear_refs"));
  if (!(file << "5" << std::flush)) Die("cannot write clear_refs");
}

std::vector<std::string> RendezvousCommand(const std::vector<std::string>& arguments,
                                           const std::string& ddprun, const std::string& address) {
  std::vector<std::string> argv = {ddprun, "rendezvous", "--listen", absl::StrCat(address, ":0")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

std::vector<std::shared_ptr<grpc::Channel>> OpenChannels(
    const std::string& endpoint, int count, const auth::ClientCredentials* credentials) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < count; ++i) channels.push_back(MakeChannel(endpoint, credentials));
  for (const auto& channel : channels) channel->GetState(/*try_to_connect=*/true);
  for (const auto& channel : channels) {
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(60))) {
      Die(absl::StrCat("cannot connect to ", endpoint));
    }
  }
  return channels;
}

void AwaitLeader(const std::string& endpoint, const auth::ClientCredentials* credentials) {
  const auto stub = v1::Rendezvous::NewStub(MakeChannel(endpoint, credentials));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kHang);
  const auto reader = stub->Follow(&context, {});
  v1::Leading leading;
  while (reader->Read(&leading)) {
    if (leading.role() == 1) return context.TryCancel();
  }
  Die(absl::StrCat(endpoint, " does not lead: ", reader->Finish().error_message()));
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace ddprun
