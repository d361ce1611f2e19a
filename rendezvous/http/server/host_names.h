// Which Host headers a server accepts.
//
// Another site may point its own name at this server's address (DNS rebinding). Its script then has
// the same origin as this server's page. The browser still sends the other site's name as Host, and
// the server refuses it. IP addresses are always accepted: DNS cannot redirect them. Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_HOST_NAMES_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_HOST_NAMES_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::http {

// "Head:8080" → "head", "[::1]:80" → "::1". "" if the header is malformed.
std::string HostOf(std::string_view header);

// True for an IPv4 or IPv6 address, without brackets.
bool IsAddress(const std::string& host);

// True for localhost, 127.x.y.z and ::1.
bool IsLoopbackName(const std::string& host);

class HostNames {
 public:
  // `names`: without ports. Addresses and localhost are accepted anyway.
  explicit HostNames(const std::vector<std::string>& names);

  // `header`: the value of a Host header. Any port is accepted: through a tunnel it differs from
  // the server's port.
  bool Accepts(std::string_view header) const;

 private:
  std::set<std::string> names_;  // in lower case
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_HOST_NAMES_H_
