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

// nullopt for a target that is never valid here: it does not begin with '/' (as for a proxy), has a
// '%' without two hexadecimal digits, has a control character, or has "." or ".." as a part of its
// path, in any encoding.
std::optional<Target> ParseTarget(std::string_view text);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_TARGET_H_
