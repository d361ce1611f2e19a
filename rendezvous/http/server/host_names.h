// Which Host headers a server takes for its own.
//
// A page of another site may give its own name our address (DNS rebinding), and its script is then
// of the same origin as ours. The browser still sends that name, and we refuse it. An address is no
// name: no DNS server can give it another meaning. Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_HOST_NAMES_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_HOST_NAMES_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::http {

// "Head:8080" → "head", "[::1]:80" → "::1". "" for what cannot be one.
std::string HostOf(std::string_view header);

// An IPv4 or IPv6 address, without brackets.
bool IsAddress(const std::string& host);

// localhost, 127.x.y.z or ::1.
bool IsLoopbackName(const std::string& host);

class HostNames {
 public:
  // Names without ports. Addresses and localhost need not be among them.
  explicit HostNames(const std::vector<std::string>& names);

  // `header`: the value of a Host header, which may have a port, of any number: a tunnel has
  // another one than we.
  bool Accepts(std::string_view header) const;

 private:
  std::set<std::string> names_;  // in lower case
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_HOST_NAMES_H_
