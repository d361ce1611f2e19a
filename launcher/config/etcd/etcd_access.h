// How to reach an etcd, and the prefix of our keys in it.
#ifndef DDPRUN_LAUNCHER_CONFIG_ETCD_ETCD_ACCESS_H_
#define DDPRUN_LAUNCHER_CONFIG_ETCD_ETCD_ACCESS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ddprun {

inline constexpr int kEtcdPort = 2379;
inline constexpr char kDefaultEtcdPrefix[] = "/ddprun";

struct EtcdAccess {
  std::vector<std::string> endpoints{};     // HOST:PORT of members; empty: there is no etcd
  std::string prefix = kDefaultEtcdPrefix;  // of all keys
  // Absolute paths of PEM files; "": none.
  std::string ca_file{};
  std::string certificate_file{};
  std::string key_file{};
  std::string user{};           // of etcd; "": none
  std::string password_file{};  // absolute path; "": none

  bool tls() const { return !ca_file.empty() || !certificate_file.empty(); }
  bool operator==(const EtcdAccess&) const = default;
};

// True for /NAME of at most 200 bytes, without a slash at the end.
bool IsEtcdPrefix(absl::string_view text);
std::string ExpectedEtcdPrefix();  // "expected ...", for errors

// Errors for the user, one for each contradiction between settings. They name the flags.
std::vector<std::string> ProblemsOf(const EtcdAccess& etcd);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_ETCD_ETCD_ACCESS_H_
