#include "tests/chaos/hostile/raw_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const std::string kSettings("\0\0\0\4\0\0\0\0\0", 9);

// A frame of HTTP/2 on the first stream.
std::string Frame(char type, char flags, const std::string& payload) {
  const auto size = payload.size();
  std::string frame = {static_cast<char>(size >> 16), static_cast<char>(size >> 8),
                       static_cast<char>(size), type, flags};
  return frame + std::string("\0\0\0\1", 4) + payload;
}

std::string Noise(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

}  // namespace

RawClient::RawClient(int port, const std::string& bytes) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) perror("connect");
  if (!bytes.empty()) send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

RawClient::~RawClient() { close(fd_); }

std::string RawClient::Verdict() const {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd event{fd_, POLLIN, 0};
    if (left.count() <= 0 || poll(&event, 1, static_cast<int>(left.count())) <= 0) return "open";
    if (recv(fd_, buffer, sizeof buffer, 0) <= 0) return "closed";
  }
}

std::string HalfAPreface() { return std::string(kPreface, 10); }

std::string HttpWithoutACall() { return kPreface + kSettings; }

std::string HalfACall() {
  std::string headers;
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {":method", "POST"},
           {":scheme", "http"},
           {":path", "/ddprun.v1.Rendezvous/Handshake"},
           {":authority", "localhost"},
           {"te", "trailers"},
           {"content-type", "application/grpc"}}) {
    headers += '\0';  // a literal header that is not added to HPACK's table
    headers += static_cast<char>(name.size()) + name;
    headers += static_cast<char>(value.size()) + value;
  }
  constexpr char kData = 0;
  constexpr char kHeaders = 1;
  constexpr char kEndHeaders = 4;
  return kPreface + kSettings + Frame(kHeaders, kEndHeaders, headers) +
         Frame(kData, 0, std::string("\0\0\0\0\x64", 5) + "half");
}

std::string HalfAClientHello() { return std::string("\x16\x03\x01\x02\x00\x01\x00", 7); }

void Nonsense(const LiveJob& job, const std::string& kind, std::mt19937_64& random,
              Verdicts& verdicts) {
  const std::size_t size = 64 + random() % 512;
  std::string bytes;
  switch (random() % 4) {
    case 0:
      bytes = Noise(random, size);
      break;
    case 1:
      bytes = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
      break;
    case 2:
      bytes = kPreface + kSettings + Noise(random, size);
      break;  // random bytes as frames
    // A frame of 16 MiB.
    default:
      bytes = kPreface + kSettings + std::string("\xff\xff\xff\0\0\0\0\0\1", 9);
      break;
  }
  verdicts.Add(kind + ": bytes that are no gRPC", "closed", RawClient(job.port(), bytes).Verdict());
}

}  // namespace ddprun
