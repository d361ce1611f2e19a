#include "launcher/connection/rendezvous_host.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/connection/state_home.h"
#include "launcher/log.h"
#include "launcher/os/local_address.h"
#include "rendezvous/core/exit_codes.h"

namespace ddprun {
namespace {

std::string HostAndPort(const std::string& host, int port) {
  const bool ipv6 = absl::StrContains(host, ':');
  return absl::StrCat(ipv6 ? "[" : "", host, ipv6 ? "]:" : ":", port);
}

}  // namespace

// On Debian a host's own name may resolve to loopback on this host, and to another address
// elsewhere. Then the rendezvous listens on every address.
std::string AddressToListenOn(const std::string& host, const std::string& address) {
  if (IsLoopback(host) || !IsLoopback(address)) return address;
  return address == "::1" ? "::" : "0.0.0.0";
}

absl::Status OpenToOthers(const std::string& place) {
  return absl::FailedPreconditionError(
      absl::StrCat("the rendezvous of this job is to run on this node, ", place,
                   ", and anybody who can reach the address could join or end the job: give all "
                   "nodes the same --token-file or certificates (--tls-ca, --tls-cert, --tls-key), "
                   "or say --insecure where the network is trusted; docs/security.md"));
}

RendezvousEnd EndOfRendezvous(const std::string& place, const DetachedProcess::Ended& ended,
                              const std::string& log_file) {
  RendezvousEnd end;
  end.why = absl::StrCat("the rendezvous that this node started ", place, " ended with ",
                         ended.status.Describe(), "; its log is ", log_file);
  if (!ended.last_line.empty()) {
    absl::StrAppend(&end.why, " and ends with: ", TextOfLogLine(ended.last_line));
  }
  const int code = ended.status.ShellCode();
  end.final = code == kExitUsage || code == kExitBadConfig;
  return end;
}

RendezvousHost::RendezvousHost(Options options, std::string address, std::string listen_address,
                               EventLoop* loop)
    : options_(std::move(options)),
      address_(std::move(address)),
      listen_address_(std::move(listen_address)),
      process_(loop) {}

absl::StatusOr<std::unique_ptr<RendezvousHost>> RendezvousHost::Create(Options options,
                                                                       EventLoop* loop) {
  const auto address = OwnAddress(options.host);
  if (!address.ok()) return address.status();
  if (!address->has_value()) return nullptr;
  const std::string listen_address = AddressToListenOn(options.host, **address);
  if (!IsLoopback(listen_address) && !options.insecure && !options.asks_who_calls &&
      !SomebodyListens(**address, options.port)) {
    return OpenToOthers(absl::StrCat("at ", HostAndPort(options.host, options.port)));
  }
  // The rendezvous would say so only in its log.
  if (const auto home = StateHome(); !home.ok()) return home.status();
  return std::unique_ptr<RendezvousHost>(
      new RendezvousHost(std::move(options), **address, listen_address, loop));
}

bool RendezvousHost::SomebodyListensHere() const {
  return SomebodyListens(address_, options_.port);
}

bool RendezvousHost::HasRendezvous() const {
  return EndpointFolder::IsHeld(listen_address_, options_.port);
}

bool RendezvousHost::EnsureRunning() {
  if (process_.running()) return true;
  if (SomebodyListensHere()) return false;
  std::vector<std::string> arguments = {
      "rendezvous",          "--listen",        HostAndPort(listen_address_, options_.port),
      "--until-idle",        kFirstAgentWithin, "--starter",
      absl::StrCat(getpid())};
  if (options_.insecure) arguments.emplace_back("--insecure");
  arguments.insert(arguments.end(), options_.credentials.begin(), options_.credentials.end());
  process_.StartSelf(arguments, options_.log_file,
                     {[](const absl::Status& status) { LogWarning(status.message()); },
                      [this](const DetachedProcess::Ended& ended) { OnEnded(ended); }});
  LogInfo(absl::StrCat("nobody listens on ", HostAndPort(options_.host, options_.port),
                       ": starting the rendezvous there; its log is ", options_.log_file));
  return true;
}

void RendezvousHost::OnEnded(const DetachedProcess::Ended& ended) {
  // Another process may have the endpoint: then this one had to end.
  if (ended.status.ok() || SomebodyListensHere() || HasRendezvous()) return;
  const RendezvousEnd end = EndOfRendezvous(
      absl::StrCat("on ", HostAndPort(options_.host, options_.port)), ended, options_.log_file);
  if (std::exchange(logged_, end.why) != end.why) LogWarning(end.why);
  if (end.final && useless_) useless_(end.why);
}

bool StartRight::Take() {
  if (taken()) return true;
  // An abstract name: of this network namespace, and gone with its last descriptor.
  const std::string path = absl::StrCat("ddprun-start-", geteuid(), "-", name_);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::size_t size = path.copy(name.sun_path + 1, sizeof name.sun_path - 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  const bool bound = bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), length) == 0;
  const bool others = !bound && errno == EADDRINUSE;
  if (bound) {
    socket_ = std::move(fd);
    refused_since_.reset();
    return true;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!refused_since_) refused_since_ = now;
  return !others || now - *refused_since_ > kPatience;
}

RendezvousHosts::RendezvousHosts(std::vector<std::unique_ptr<RendezvousHost>> hosts,
                                 std::string name, bool only_at_first)
    : hosts_(std::move(hosts)), only_at_first_(only_at_first), right_(std::move(name)) {
  for (std::size_t place = 0; place < hosts_.size(); ++place) {
    hosts_[place]->WhenUseless(
        [this, place](const std::string& why) { OnUseless(static_cast<int>(place), why); });
  }
}

void RendezvousHosts::OnUseless(int place, const std::string& why) {
  if (heard_) return;
  const auto now = std::chrono::steady_clock::now();
  if (!useless_since_) useless_since_ = now;
  useless_places_.insert(place);
  if (useless_places_.size() < hosts_.size()) {
    if (skip_) skip_();
    return;
  }
  useless_places_.clear();  // tries every place again
  if (now - *useless_since_ >= kUselessFor && useless_) useless_(why);
}

bool RendezvousHosts::EnsureRunning(int place) {
  if (left_alone_) return false;
  tried_.insert(place);
  if (useless_places_.contains(place)) return false;
  if (right_.taken() && (!hosts_[started_]->running() || hosts_[started_]->SomebodyListensHere())) {
    right_.GiveBack();
  }
  if (hosts_[place]->running()) return true;
  const bool all_tried = tried_.size() == hosts_.size();
  const auto may_start = [&] {
    return all_tried || std::ranges::none_of(
                            hosts_, [](const auto& host) { return host->SomebodyListensHere(); });
  };
  // Whether the rendezvous of this job runs, as far as can be told.
  const auto is_running = [&] {
    for (int other = 0; other < static_cast<int>(hosts_.size()); ++other) {
      if (!denied_.contains(other) && hosts_[other]->HasRendezvous()) return true;
    }
    return false;
  };
  if (!may_start() || !right_.Take()) return false;
  // Looks again with the right: the agent that had it may have started one.
  if (!may_start() || is_running()) {
    right_.GiveBack();
    return false;
  }
  started_ = place;
  const bool ours = hosts_[place]->EnsureRunning();
  if (!ours) right_.GiveBack();
  has_started_ = has_started_ || ours;
  return ours;
}

}  // namespace ddprun
