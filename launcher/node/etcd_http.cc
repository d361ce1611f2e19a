#include "launcher/node/etcd_http.h"

#include <netdb.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/connection/connection.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostBytes = 256 << 10;

struct Deleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};

absl::Status NoAnswer() { return absl::UnavailableError("does not answer over HTTP"); }

// Returns a connected socket. `limit` applies to each connect, send and receive.
absl::StatusOr<UniqueFd> Connect(const std::string& host, const std::string& port,
                                 std::chrono::milliseconds limit) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return NoAnswer();
  const std::unique_ptr<addrinfo, Deleter> addresses(found);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    UniqueFd fd(socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, 0));
    if (fd.get() < 0) continue;
    const timeval time{limit.count() / 1000, limit.count() % 1000 * 1000};
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);  // also of connect
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    if (connect(fd.get(), address->ai_addr, address->ai_addrlen) == 0) return fd;
  }
  return NoAnswer();
}

// Reads until the member closes the connection, at most kMostBytes.
template <class Read>
std::string ReadAll(Read read) {
  std::string answer;
  char buffer[4096];
  while (answer.size() < kMostBytes) {
    const auto got = read(buffer, sizeof buffer);
    if (got <= 0) break;
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  return answer;
}

absl::StatusOr<std::string> OverTls(int fd, const etcd::Options& options, const std::string& host,
                                    const std::string& request) {
  const std::unique_ptr<SSL_CTX, Deleter> context(SSL_CTX_new(TLS_client_method()));
  if (SSL_CTX_load_verify_locations(context.get(), options.ca.c_str(), nullptr) != 1) {
    return NoAnswer();
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (!options.cert.empty() &&
      (SSL_CTX_use_certificate_chain_file(context.get(), options.cert.c_str()) != 1 ||
       SSL_CTX_use_PrivateKey_file(context.get(), options.key.c_str(), SSL_FILETYPE_PEM) != 1)) {
    return NoAnswer();
  }
  const std::unique_ptr<SSL, Deleter> ssl(SSL_new(context.get()));
  SSL_set_tlsext_host_name(ssl.get(), host.c_str());
  // The certificate must be for `host`, an address or a name.
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), host.c_str()) != 1 &&
      SSL_set1_host(ssl.get(), host.c_str()) != 1) {
    return NoAnswer();
  }
  if (SSL_set_fd(ssl.get(), fd) != 1 || SSL_connect(ssl.get()) != 1 ||
      SSL_write(ssl.get(), request.data(), static_cast<int>(request.size())) <= 0) {
    return NoAnswer();
  }
  return ReadAll([&](char* buffer, std::size_t size) {
    return SSL_read(ssl.get(), buffer, static_cast<int>(size));
  });
}

absl::StatusOr<std::string> Plain(int fd, const std::string& request) {
  if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return NoAnswer();
  }
  return ReadAll([fd](char* buffer, std::size_t size) { return recv(fd, buffer, size, 0); });
}

// "300" of "--election-timeout=300", or of "--election-timeout", "300"; one or two dashes.
std::optional<std::string> FlagOf(const std::vector<std::string>& arguments,
                                  const std::string& name) {
  std::optional<std::string> value;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (!absl::ConsumePrefix(&argument, "-")) continue;
    absl::ConsumePrefix(&argument, "-");
    if (argument == name && i + 1 < arguments.size()) value = arguments[i + 1];
    if (absl::ConsumePrefix(&argument, name) && absl::ConsumePrefix(&argument, "=")) {
      value = std::string(argument);
    }
  }
  return value;
}

}  // namespace

absl::StatusOr<std::string> GetFromEtcd(const etcd::Options& options, const std::string& endpoint,
                                        const std::string& path, std::chrono::milliseconds limit) {
  const std::string host = HostOf(endpoint);
  auto fd = Connect(host, endpoint.substr(endpoint.rfind(':') + 1), limit);
  if (!fd.ok()) return fd.status();
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: ", endpoint, "\r\n\r\n");
  auto answer =
      options.ca.empty() ? Plain(fd->get(), request) : OverTls(fd->get(), options, host, request);
  if (answer.ok() && !absl::StartsWith(*answer, "HTTP/")) return NoAnswer();
  return answer;
}

std::optional<std::chrono::system_clock::time_point> DateOf(const std::string& answer) {
  const std::string head = answer.substr(0, answer.find("\r\n\r\n"));
  for (absl::string_view line : absl::StrSplit(head, "\r\n")) {
    if (!absl::StartsWithIgnoreCase(line, "date:")) continue;
    const std::string text(absl::StripAsciiWhitespace(line.substr(5)));
    tm time{};
    if (strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &time) == nullptr) return std::nullopt;
    return std::chrono::system_clock::from_time_t(timegm(&time));
  }
  return std::nullopt;
}

ClockAhead ClockAheadBy(const std::vector<DateSeen>& seen) {
  using std::chrono::milliseconds;
  ClockAhead ahead{milliseconds::min(), milliseconds::max()};
  for (const DateSeen& one : seen) {
    // The member's clock was in [date, date + 1 s) at some moment in [sent, received].
    ahead.least = std::max(ahead.least, std::chrono::floor<milliseconds>(one.date - one.received));
    ahead.most = std::min(
        ahead.most, std::chrono::ceil<milliseconds>(one.date + std::chrono::seconds(1) - one.sent));
  }
  return ahead;
}

absl::StatusOr<std::chrono::milliseconds> ElectionTimeoutOf(const std::string& answer) {
  const std::size_t body = answer.find("\r\n\r\n");
  const auto json = nlohmann::json::parse(body == std::string::npos ? "" : answer.substr(body + 4),
                                          nullptr, false);
  if (!json.is_object() || !json.contains("cmdline") || !json["cmdline"].is_array()) {
    return absl::UnavailableError("it does not report its command line");
  }
  std::vector<std::string> arguments;
  for (const auto& argument : json["cmdline"]) {
    if (argument.is_string()) arguments.push_back(argument.get<std::string>());
  }
  const auto value = FlagOf(arguments, "election-timeout");
  std::int64_t milliseconds = 0;
  if (!value || !absl::SimpleAtoi(*value, &milliseconds)) {
    return absl::NotFoundError(
        "not on its command line, but perhaps in its environment (ETCD_ELECTION_TIMEOUT) or file");
  }
  return std::chrono::milliseconds(milliseconds);
}

}  // namespace ddprun
