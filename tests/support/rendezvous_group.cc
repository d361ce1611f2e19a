#include "tests/support/rendezvous_group.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/job.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

// Free endpoints on loopback. Nobody holds them, so the rendezvous must take them at once.
std::vector<std::string> FreeEndpoints(int count) {
  std::vector<std::string> endpoints;
  std::vector<UniqueFd> held;
  for (int i = 0; i < count; ++i) {
    held.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    if (bind(held.back().get(), name, length) != 0 ||
        getsockname(held.back().get(), name, &length) != 0) {
      abort();
    }
    endpoints.push_back(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)));
  }
  return endpoints;
}

int CountOf(const std::string& text, const std::string& what) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
  return count;
}

}  // namespace

RendezvousGroup::RendezvousGroup(std::vector<std::string> flags, int count)
    : flags_(std::move(flags)), endpoints_(FreeEndpoints(count)), programs_(count) {
  for (int i = 0; i < count; ++i) Start(i);
}

void RendezvousGroup::Start(int index) {
  std::vector<std::string> argv = {DdprunPath(), "rendezvous", "--listen", endpoints_[index]};
  argv.insert(argv.end(), flags_.begin(), flags_.end());
  programs_[index] = std::make_unique<Program>(argv);
  programs_[index]->WaitForOut("listening on");
}

std::string RendezvousGroup::endpoints() const { return absl::StrJoin(endpoints_, ","); }

std::vector<int> RendezvousGroup::Reigns() const {
  std::vector<int> all;
  for (const auto& program : programs_) {
    all.push_back(CountOf(program->err(), "serves the jobs: term"));
  }
  return all;
}

int RendezvousGroup::WaitForLeader(const std::vector<int>& before) const {
  const auto until = std::chrono::steady_clock::now() + kHang;
  while (std::chrono::steady_clock::now() < until) {
    const std::vector<int> now = Reigns();
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i] > before[i]) return static_cast<int>(i);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // polls
  }
  return -1;
}

}  // namespace ddprun
