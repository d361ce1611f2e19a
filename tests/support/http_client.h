// A browser for tests: sends and receives bytes over a socket, and gives up after a minute without
// data.
#ifndef DDPRUN_TESTS_SUPPORT_HTTP_CLIENT_H_
#define DDPRUN_TESTS_SUPPORT_HTTP_CLIENT_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>

#include "worker/contract/unique_fd.h"

namespace ddprun {

class HttpClient {
 public:
  static constexpr char kSilence[] = "(nothing came for a minute)";

  explicit HttpClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<std::uint16_t>(port));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{60, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    connected_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0;
  }

  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }
  void Say(const std::string& bytes) const {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t count = send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<std::size_t>(count);
    }
  }
  void SayNoMore() const { shutdown(fd_.get(), SHUT_WR); }

  // Reads until `text` has arrived. False: the connection ended before, or nothing came for a
  // minute.
  bool HearUntil(const std::string& text) {
    while (heard_.find(text) == std::string::npos) {
      if (!HearMore()) return false;
    }
    return true;
  }
  // Reads until the connection ends, and returns everything read so far. After a minute without
  // data it returns, too, with kSilence at the end of the text.
  std::string HearAll() {
    while (HearMore()) continue;
    return heard_;
  }
  const std::string& heard() const { return heard_; }
  void Forget() { heard_.clear(); }

 private:
  bool HearMore() {
    char buffer[16384];
    const ssize_t count = recv(fd_.get(), buffer, sizeof buffer, 0);
    if (count < 0 && errno == EAGAIN) heard_ += kSilence;
    if (count <= 0) return false;
    heard_.append(buffer, static_cast<std::size_t>(count));
    return true;
  }

  const UniqueFd fd_;
  bool connected_ = false;
  std::string heard_;
};

inline std::string Get(const std::string& target, const std::string& headers = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}
inline std::string Post(const std::string& target, const std::string& body,
                        const std::string& headers = "Content-Type: application/json\r\n") {
  return "POST " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// Sends one request on a connection of its own, and returns the whole answer.
inline std::string Ask(int port, std::string request) {
  HttpClient client(port);
  request.insert(request.find("\r\n") + 2, "Connection: close\r\n");
  client.Say(request);
  return client.HearAll();
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_HTTP_CLIENT_H_
