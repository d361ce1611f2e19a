#include "tests/unit/worker/support/regrouping_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "worker/contract/control.h"

namespace ddp::test {
namespace {

using ddprun::UniqueFd;

UniqueFd MemoryFile(const std::string& bytes) {
  UniqueFd file(memfd_create("environment", MFD_CLOEXEC));
  if (write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) abort();
  return file;
}

}  // namespace

RegroupingAgent::RegroupingAgent(Options options)
    : options_(std::move(options)), listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, (folder_ / "s").c_str());
  if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) abort();
  if (listen(listener_.get(), options_.world_size) != 0) abort();
  thread_ = std::thread([this] { Run(); });
}

RegroupingAgent::~RegroupingAgent() {
  if (thread_.joinable()) thread_.join();
}

Environment RegroupingAgent::environment() const {
  return {{"DDPRUN_CONTROL_SOCKET", folder_ / "s"}, {"DDPRUN_GENERATION", "0"}};
}

const std::vector<std::string>& RegroupingAgent::heard() {
  if (thread_.joinable()) thread_.join();
  return heard_;
}

void RegroupingAgent::Run() {
  do {
    std::vector<pollfd> watched = {{listener_.get(), POLLIN, 0}};
    for (const Rank& rank : ranks_) watched.push_back({rank.socket.get(), POLLIN, 0});
    if (poll(watched.data(), watched.size(), 60'000) <= 0) return;
    for (std::size_t i = ranks_.size(); i > 0; --i) {
      if (watched[i].revents != 0) Hear(&ranks_[i - 1]);
    }
    const auto gone = std::erase_if(ranks_, [](const Rank& rank) { return !rank.socket.valid(); });
    if (watched[0].revents != 0) {
      ranks_.push_back({UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC))});
      ++connected_;
    }
    if (generation_ + 1 == options_.generations) continue;
    const bool complete =
        connected_ == options_.world_size && All(&Rank::stays) && All(&Rank::trains);
    const bool over = generation_ == options_.incomplete ? All(&Rank::stays)
                      : options_.ends_them               ? complete
                                                         : gone > 0;
    if (!ending_ && connected_ == options_.world_size && over) EndGeneration();
    if (ending_ && All(&Rank::waits)) BeginGeneration();
  } while (!ranks_.empty() || connected_ < options_.world_size);
}

void RegroupingAgent::Hear(Rank* rank) {
  std::array<char, ddprun::control::kMaxPacketBytes> packet;
  const ssize_t size = recv(rank->socket.get(), packet.data(), packet.size(), MSG_DONTWAIT);
  if (size <= 0) {
    rank->socket.reset();
    return;
  }
  std::string said(packet.data(), static_cast<std::size_t>(size));
  if (said == "STAYS=1") rank->stays = true;
  if (said == "STANDBY=waiting") rank->waits = true;
  if (said.starts_with("STEP=")) {
    rank->trains = true;
  } else {
    heard_.push_back(std::move(said));
  }
}

void RegroupingAgent::EndGeneration() {
  ending_ = true;
  for (const Rank& rank : ranks_) Send(rank, "LEAVE=1");
}

void RegroupingAgent::BeginGeneration() {
  ending_ = false;
  ++generation_;
  const UniqueFd output(
      open(options_.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const bool incomplete = generation_ == options_.incomplete;
  const std::size_t first = incomplete && options_.absent_first ? 1 : 0;
  const std::size_t size = ranks_.size() + (incomplete ? 1 : 0);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const std::string rank = std::to_string(first + i);
    std::string environment;
    for (const std::string& entry :
         {"RANK=" + rank, "LOCAL_RANK=" + rank, "WORLD_SIZE=" + std::to_string(size),
          std::string("MASTER_ADDR=127.0.0.1"), "MASTER_PORT=" + ports_[generation_ % 2].text(),
          "DDPRUN_GENERATION=" + std::to_string(generation_),
          std::string("OTHER=not the launcher's")}) {
      environment.append(entry).push_back('\0');
    }
    ranks_[i].stays = ranks_[i].waits = ranks_[i].trains = false;
    const UniqueFd file = MemoryFile(environment);
    Send(ranks_[i], "GO=1", {file.get(), output.get(), output.get()});
  }
}

void RegroupingAgent::Send(const Rank& rank, const std::string& packet,
                           const std::vector<int>& descriptors) {
  iovec data = {const_cast<char*>(packet.data()), packet.size()};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int) * ddprun::control::kGoDescriptors)] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = ancillary;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(part), descriptors.data(), sizeof(int) * descriptors.size());
  }
  sendmsg(rank.socket.get(), &header, MSG_NOSIGNAL);
}

bool RegroupingAgent::All(bool Rank::*said) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [said](const Rank& rank) { return rank.*said; });
}

}  // namespace ddp::test
