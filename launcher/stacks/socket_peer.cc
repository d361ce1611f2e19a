#include "launcher/stacks/socket_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "launcher/stacks/process_facts.h"

namespace ddprun::stacks {
namespace {

constexpr std::size_t kTableBytes = std::size_t{1} << 20;
constexpr std::string_view kLinkStart = "socket:[";

// Columns of proc_net_tcp(5).
constexpr std::size_t kRemote = 2;
constexpr std::size_t kInode = 9;

// "0100007F:7148": words of 32 bits as the processor has them in memory, and the port.
std::string ReadAddress(absl::string_view text) {
  constexpr std::size_t kWordDigits = 8;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  const absl::string_view digits = parts.front();
  std::uint32_t port = 0;
  if (parts.size() != 2 || !absl::SimpleHexAtoi(parts[1], &port) || port == 0) return "";
  std::array<std::uint32_t, 4> words{};
  const std::size_t count = digits.size() / kWordDigits;
  if (digits.size() % kWordDigits != 0 || (count != 1 && count != words.size())) return "";
  for (std::size_t i = 0; i < count; ++i) {
    if (!absl::SimpleHexAtoi(digits.substr(i * kWordDigits, kWordDigits), &words[i])) return "";
  }
  in6_addr v6;
  std::memcpy(&v6, words.data(), sizeof(v6));
  const bool mapped = count > 1 && IN6_IS_ADDR_V4MAPPED(&v6);
  char name[INET6_ADDRSTRLEN] = "";
  if (count > 1 && !mapped) {
    ::inet_ntop(AF_INET6, &v6, name, sizeof(name));
    return absl::StrCat("[", name, "]:", port);
  }
  ::inet_ntop(AF_INET, mapped ? &words[3] : words.data(), name, sizeof(name));
  return absl::StrCat(name, ":", port);
}

}  // namespace

std::string PeerInTable(std::string_view table, std::string_view inode) {
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(table.data(), table.size()), '\n')) {
    const std::vector<absl::string_view> columns =
        absl::StrSplit(line, absl::ByAnyChar(" "), absl::SkipWhitespace());
    if (columns.size() <= kInode ||
        columns[kInode] != absl::string_view(inode.data(), inode.size()))
      continue;
    return ReadAddress(columns[kRemote]);
  }
  return "";
}

std::string DescribeSocket(pid_t pid, std::string_view link) {
  if (!link.starts_with(kLinkStart) || !link.ends_with(']')) return "";
  link.remove_prefix(kLinkStart.size());
  link.remove_suffix(1);
  for (const char* const name : {"tcp", "tcp6"}) {
    const std::string table = ReadProc(absl::StrCat("/proc/", pid, "/net/", name), kTableBytes);
    if (const std::string peer = PeerInTable(table, link); !peer.empty()) {
      return absl::StrCat("socket to ", peer);
    }
  }
  return "";
}

}  // namespace ddprun::stacks
