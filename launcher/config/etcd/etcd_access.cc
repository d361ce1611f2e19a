#include "launcher/config/etcd/etcd_access.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostPrefixBytes = 200;

}  // namespace

bool IsEtcdPrefix(absl::string_view text) {
  return text.size() >= 2 && text.size() <= kMostPrefixBytes && text.front() == '/' &&
         text.back() != '/';
}

std::string ExpectedEtcdPrefix() {
  return absl::StrCat("expected /NAME, of at most ", kMostPrefixBytes, " bytes");
}

std::vector<std::string> ProblemsOf(const EtcdAccess& etcd) {
  std::vector<std::string> problems;
  if (etcd.certificate_file.empty() != etcd.key_file.empty()) {
    problems.emplace_back("--etcd-cert, --etcd-key: one needs the other");
  }
  if (!etcd.certificate_file.empty() && etcd.ca_file.empty()) {
    problems.emplace_back("--etcd-cert: needs --etcd-ca, the authority of etcd's own certificates");
  }
  if (etcd.user.empty() != etcd.password_file.empty()) {
    problems.emplace_back("--etcd-user, --etcd-password-file: one needs the other");
  }
  return problems;
}

}  // namespace ddprun
