#include "launcher/config/etcd/etcd_options.h"

#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "launcher/config/etcd/etcd_access.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kShortestValidity{5};
constexpr std::chrono::minutes kLongestValidity{5};

class EtcdOptions {
 public:
  EtcdOptions(const FlagReading& reading, const Host& host, std::vector<std::string>* errors)
      : reading_(reading), host_(host), errors_(*errors) {}

  EtcdConfig Make() {
    const GivenFlag* const given = reading_.Find("etcd");
    if (given == nullptr) {
      for (const char* name : {"etcd-prefix", "etcd-ca", "etcd-cert", "etcd-key", "etcd-user",
                               "etcd-password-file", "leader-validity", "advertise"}) {
        if (reading_.Find(name) == nullptr) continue;
        errors_.push_back(absl::StrCat("--", name, ": goes with --etcd only"));
      }
      return {};
    }
    TakeAccess(*given);
    TakeValidity();
    TakeAdvertised();
    return std::move(config_);
  }

  EtcdAccess MakeAccess(const GivenFlag& endpoints) {
    TakeAccess(endpoints);
    return std::move(config_);
  }

 private:
  void TakeAccess(const GivenFlag& endpoints) {
    TakeEndpoints(endpoints);
    TakePrefix();
    TakeCredentials();
  }

  void TakeEndpoints(const GivenFlag& given) {
    for (const absl::string_view each : absl::StrSplit(given.value, ',')) {
      const auto endpoint = ParseEndpoint(std::string(each), 1, kEtcdPort);
      if (!endpoint) {
        return AddError(given, "expected HOST:PORT of etcd's members, separated by commas");
      }
      config_.endpoints.push_back(FormatEndpoint(*endpoint));
    }
  }

  void TakePrefix() {
    const GivenFlag* const given = reading_.Find("etcd-prefix");
    if (given == nullptr) return;
    config_.prefix = given->value;
    if (!IsEtcdPrefix(config_.prefix)) AddError(*given, ExpectedEtcdPrefix());
  }

  void TakeCredentials() {
    config_.ca_file = Path("etcd-ca");
    config_.certificate_file = Path("etcd-cert");
    config_.key_file = Path("etcd-key");
    config_.password_file = Path("etcd-password-file");
    if (const GivenFlag* const user = reading_.Find("etcd-user")) config_.user = user->value;
    for (std::string& problem : ProblemsOf(config_)) errors_.push_back(std::move(problem));
  }

  void TakeValidity() {
    const GivenFlag* const given = reading_.Find("leader-validity");
    if (given == nullptr) return;
    const auto validity = ParseDuration(given->value);
    if (validity && *validity >= kShortestValidity && *validity <= kLongestValidity) {
      config_.leader_validity = *validity;
    } else {
      AddError(*given, absl::StrCat("expected a duration from ", FormatDuration(kShortestValidity),
                                    " to ", FormatDuration(kLongestValidity)));
    }
  }

  void TakeAdvertised() {
    const GivenFlag* const given = reading_.Find("advertise");
    if (given == nullptr) return;
    const auto endpoint = ParseEndpoint(given->value, 0, 0);
    if (!endpoint) return AddError(*given, "expected HOST or HOST:PORT");
    config_.advertised_host = endpoint->host;
    config_.advertised_port = endpoint->port;
  }

  void AddError(const GivenFlag& flag, absl::string_view expected) {
    errors_.push_back(
        absl::StrCat(flag.origin.place, ": ", expected, " (found ", Quoted(flag.value), ")"));
  }

  std::string Path(absl::string_view flag) const {
    const GivenFlag* const given = reading_.Find(flag);
    if (given == nullptr || given->value.empty()) return "";
    return (std::filesystem::path(host_.CurrentDirectory()) / given->value)
        .lexically_normal()
        .string();
  }

  const FlagReading& reading_;
  const Host& host_;
  std::vector<std::string>& errors_;
  EtcdConfig config_;
};

}  // namespace

EtcdConfig TakeEtcd(const FlagReading& reading, const Host& host,
                    std::vector<std::string>* errors) {
  return EtcdOptions(reading, host, errors).Make();
}

EtcdAccess TakeEtcdAccess(const FlagReading& reading, const GivenFlag& endpoints, const Host& host,
                          std::vector<std::string>* errors) {
  return EtcdOptions(reading, host, errors).MakeAccess(endpoints);
}

}  // namespace ddprun
