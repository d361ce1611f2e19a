// Sends one packet with a descriptor over a Unix socket, as the agent sends a progress page.
#ifndef DDPRUN_TESTS_UNIT_WORKER_AGENT_SEND_DESCRIPTOR_H_
#define DDPRUN_TESTS_UNIT_WORKER_AGENT_SEND_DESCRIPTOR_H_

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

namespace ddprun {

inline void SendDescriptor(int socket, std::string packet, int descriptor) {
  iovec data = {packet.data(), packet.size()};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = ancillary;
  header.msg_controllen = sizeof(ancillary);
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(descriptor));
  EXPECT_GT(sendmsg(socket, &header, MSG_NOSIGNAL), 0);
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_WORKER_AGENT_SEND_DESCRIPTOR_H_
