// A request and its answer, as handlers see them. Plain values.
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
  std::map<std::string, std::string> query{};  // decoded; of one name that comes twice, the last
  std::map<std::string, std::string> headers{};  // names in lower case
  std::string body{};
  std::string peer{};     // "127.0.0.1:41822"
  bool loopback = false;  // it came to a loopback address of this host, from one
  bool tls = false;

  // "" where there is none.
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
  // Beside Content-Type, Content-Length, Connection and what every answer has (no sniffing, no
  // referrer, no caching).
  std::vector<std::pair<std::string, std::string>> headers{};
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_MESSAGE_H_
