#include "launcher/connection/slurm_conf.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ddprun {
namespace {

// `line` without its comment, which begins with #, and without white space at both ends.
absl::string_view Setting(absl::string_view line) {
  return absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
}

std::string SocketOf(absl::string_view auth_info) {
  for (absl::string_view part : absl::StrSplit(auth_info, ',')) {
    part = absl::StripAsciiWhitespace(part);
    // In old configurations the value is the path alone.
    if (absl::StartsWithIgnoreCase(part, "socket=")) part.remove_prefix(7);
    if (absl::StartsWith(part, "/")) return std::string(part);
  }
  return "";
}

}  // namespace

std::string MungeSocketIn(absl::string_view slurm_conf) {
  std::string socket;
  for (const absl::string_view line : absl::StrSplit(slurm_conf, '\n')) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(Setting(line), absl::MaxSplits('=', 1));
    if (parts.size() != 2) continue;
    if (!absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(parts[0]), "AuthInfo")) continue;
    absl::string_view value = absl::StripAsciiWhitespace(parts[1]);
    if (absl::ConsumePrefix(&value, "\"")) absl::ConsumeSuffix(&value, "\"");
    socket = SocketOf(value);  // the last one counts
  }
  return socket;
}

std::string MungeSocketOfSlurm() {
  std::vector<std::string> places;
  if (const char* const given = std::getenv("SLURM_CONF"); given != nullptr && given[0] != '\0') {
    places = {given};
  } else {
    places = {"/run/slurm/conf/slurm.conf", "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf"};
  }
  for (const std::string& place : places) {
    std::ifstream file(place);
    if (!file) continue;
    return MungeSocketIn(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  return "";
}

}  // namespace ddprun
