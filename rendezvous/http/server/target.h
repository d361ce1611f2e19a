// The target of a request line, "/api/job?job=exp%207", decoded. Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_TARGET_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_TARGET_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::http {

struct Target {
  std::string path;  // begins with '/'
  std::map<std::string, std::string> query{};
};

// Nothing for what no page of ours has: a target that does not begin with '/' (a proxy's), a '%'
// that two hexadecimal digits do not follow, a control character, or a path with "." or ".." as a
// part, however it is written.
std::optional<Target> ParseTarget(std::string_view text);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_TARGET_H_
