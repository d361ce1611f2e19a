#include "launcher/stacks/unanswered_peers.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "launcher/stacks/process_facts.h"
#include "launcher/stacks/system_calls.h"

namespace ddprun::stacks {
namespace {

constexpr std::size_t kMostDescriptors = 4096;
constexpr std::size_t kMostTableBytes = std::size_t{4} << 20;

// Columns of proc_net_tcp(5).
constexpr std::size_t kPeerColumn = 2;
constexpr std::size_t kResentColumn = 6;
constexpr std::size_t kProbesColumn = 8;  // called "timeout"
constexpr std::size_t kInodeColumn = 9;

std::set<std::string> SocketsOf(pid_t pid) {
  constexpr std::string_view kStart = "socket:[";
  std::set<std::string> inodes;
  for (const int descriptor : DescriptorsOf(pid, kMostDescriptors)) {
    const std::string link = ReadLink(absl::StrCat("/proc/", pid, "/fd/", descriptor));
    if (!link.starts_with(kStart) || !link.ends_with(']')) continue;
    inodes.insert(link.substr(kStart.size(), link.size() - kStart.size() - 1));
  }
  return inodes;
}

}  // namespace

std::vector<UnansweredPeer> UnansweredInTable(std::string_view table,
                                              const std::set<std::string>& inodes) {
  std::vector<UnansweredPeer> peers;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(table.data(), table.size()), '\n')) {
    const std::vector<absl::string_view> columns =
        absl::StrSplit(line, ' ', absl::SkipWhitespace());
    int resent = 0;
    int probes = 0;
    if (columns.size() <= kInodeColumn || !inodes.contains(std::string(columns[kInodeColumn])) ||
        !absl::SimpleHexAtoi(columns[kResentColumn], &resent) ||
        !absl::SimpleAtoi(columns[kProbesColumn], &probes) || resent + probes == 0) {
      continue;
    }
    const absl::string_view remote = columns[kPeerColumn];
    peers.push_back(
        {TcpAddress(std::string_view(remote.data(), remote.size())), std::max(resent, probes)});
  }
  return peers;
}

std::vector<UnansweredPeer> UnansweredPeersOf(pid_t pid, std::size_t most) {
  const std::set<std::string> inodes = SocketsOf(pid);
  if (inodes.empty()) return {};
  std::vector<UnansweredPeer> peers;
  for (const char* const name : {"tcp", "tcp6"}) {
    const std::string table = ReadProc(absl::StrCat("/proc/", pid, "/net/", name), kMostTableBytes);
    std::ranges::move(UnansweredInTable(table, inodes), std::back_inserter(peers));
  }
  std::sort(peers.begin(), peers.end());
  if (peers.size() > most) peers.resize(most);
  return peers;
}

}  // namespace ddprun::stacks
