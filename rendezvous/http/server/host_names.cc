#include "rendezvous/http/server/host_names.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace ddprun::http {

std::string HostOf(std::string_view header) {
  std::string_view host = header;
  std::string_view port;
  if (!header.empty() && header.front() == '[') {
    const std::size_t end = header.find(']');
    if (end == std::string_view::npos) return "";
    host = header.substr(1, end - 1);
    port = header.substr(end + 1);
    if (!port.empty() && port.front() != ':') return "";
  } else if (const std::size_t colon = header.find(':'); colon != std::string_view::npos) {
    host = header.substr(0, colon);
    port = header.substr(colon);
  }
  if (!port.empty()) port.remove_prefix(1);
  if (!std::all_of(port.begin(), port.end(), absl::ascii_isdigit)) return "";
  std::string name = absl::AsciiStrToLower(std::string(host));
  if (!name.empty() && name.back() == '.') name.pop_back();  // a fully qualified name
  return name;
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

bool IsLoopbackName(const std::string& host) {
  return host == "localhost" || host == "::1" ||
         (absl::StartsWith(host, "127.") && IsAddress(host));
}

HostNames::HostNames(const std::vector<std::string>& names) {
  for (const std::string& name : names) names_.insert(HostOf(name));
  names_.erase("");
}

bool HostNames::Accepts(std::string_view header) const {
  const std::string host = HostOf(header);
  return host == "localhost" || IsAddress(host) || names_.count(host) > 0;
}

}  // namespace ddprun::http
