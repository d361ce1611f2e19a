#include "launcher/os/tcp_bytes.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostConnections = std::size_t{1} << 16;
constexpr std::size_t kAnswerBytes = std::size_t{1} << 15;

struct ConnectionsRequest {
  nlmsghdr header;
  inet_diag_req_v2 question;
};

// Asks for all connections of this family; listeners and TIME_WAIT carry nothing.
bool AskForConnections(int socket, int family) {
  enum { kEstablished = 1, kFinWait1 = 4, kFinWait2 = 5, kCloseWait = 8, kLastAck = 9 };
  ConnectionsRequest request{};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.question.sdiag_family = static_cast<__u8>(family);
  request.question.sdiag_protocol = IPPROTO_TCP;
  request.question.idiag_ext = 1 << (INET_DIAG_INFO - 1);
  request.question.idiag_states =
      1U << kEstablished | 1U << kFinWait1 | 1U << kFinWait2 | 1U << kCloseWait | 1U << kLastAck;
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  return ::sendto(socket, &request, sizeof(request), 0, reinterpret_cast<sockaddr*>(&kernel),
                  sizeof(kernel)) == sizeof(request);
}

// The bytes of one connection; nullopt: the message has no counters, because the kernel is old.
std::optional<std::int64_t> BytesOf(const inet_diag_msg& connection, std::size_t size) {
  constexpr std::size_t kHeader = NLMSG_ALIGN(sizeof(connection));
  const char* const start = reinterpret_cast<const char*>(&connection);
  for (std::size_t at = kHeader; at + sizeof(rtattr) <= size;) {
    rtattr attribute;
    std::memcpy(&attribute, start + at, sizeof(attribute));
    if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > size - at) break;
    const std::size_t length = attribute.rta_len - RTA_LENGTH(0);
    if (attribute.rta_type == INET_DIAG_INFO) {
      if (length < offsetof(tcp_info, tcpi_bytes_received) + sizeof(__u64)) break;
      tcp_info info{};
      std::memcpy(&info, start + at + RTA_LENGTH(0), std::min(length, sizeof(info)));
      // What waits in the socket has been received by the kernel, not by the process.
      const std::uint64_t taken =
          info.tcpi_bytes_received -
          std::min<std::uint64_t>(info.tcpi_bytes_received, connection.idiag_rqueue);
      return static_cast<std::int64_t>(info.tcpi_bytes_acked + taken);
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
  return std::nullopt;
}

// Returns whether more messages follow.
bool TakeMessages(const char* answer, std::size_t size, TcpBytes* bytes) {
  for (std::size_t at = 0; at + sizeof(nlmsghdr) <= size;) {
    nlmsghdr header;
    std::memcpy(&header, answer + at, sizeof(header));
    if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > size - at) return false;
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return false;  // NLMSG_DONE, NLMSG_ERROR
    const std::size_t length = header.nlmsg_len - NLMSG_HDRLEN;
    if (length < sizeof(inet_diag_msg) || bytes->size() >= kMostConnections) return false;
    const auto& connection = *reinterpret_cast<const inet_diag_msg*>(answer + at + NLMSG_HDRLEN);
    if (const auto carried = BytesOf(connection, length)) {
      (*bytes)[connection.idiag_inode] = *carried;
    }
    at += NLMSG_ALIGN(header.nlmsg_len);
  }
  return true;
}

}  // namespace

TcpBytes ReadTcpBytes() {
  TcpBytes bytes;
  std::vector<std::uint64_t> answer(kAnswerBytes / sizeof(std::uint64_t));  // aligned
  for (const int family : {AF_INET, AF_INET6}) {
    const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!socket.valid() || !AskForConnections(socket.get(), family)) continue;
    ssize_t size = 0;
    do {
      size = ::recv(socket.get(), answer.data(), kAnswerBytes, MSG_DONTWAIT);
    } while (size > 0 && TakeMessages(reinterpret_cast<const char*>(answer.data()),
                                      static_cast<std::size_t>(size), &bytes));
  }
  return bytes;
}

}  // namespace ddprun
