// A request and its response, as handlers see them. Plain values.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_MESSAGE_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_MESSAGE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::http {

struct Request {
  std::string method;                          // "GET"; HEAD is handled like GET, without its body
  std::string target_path;                     // decoded, begins with '/'; no "." or ".." in it
  std::map<std::string, std::string> query{};  // decoded; the last value of a repeated name
  std::map<std::string, std::string> headers{};  // names in lower case
  std::string body{};
  std::string peer{};     // "127.0.0.1:41822"
  bool loopback = false;  // both ends have loopback addresses
  bool tls = false;

  // "" if there is no such header.
  std::string Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
  std::string Query(const std::string& name) const {
    const auto found = query.find(name);
    return found == query.end() ? std::string() : found->second;
  }
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body{};
  // Further headers. The server adds Date, Content-Type, Content-Length (not for a Stream),
  // Connection, and headers against sniffing, framing, referrers and caching.
  std::vector<std::pair<std::string, std::string>> headers{};
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_MESSAGE_H_
