// The command line of `ddprun certs`.
#include <cstdint>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/subcommands.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

constexpr absl::string_view kCertsUsage =
    "Makes a certificate authority in DIR (ca.crt, ca.key), unless DIR has one. Then it makes a\n"
    "certificate for each node (NODE.crt, NODE.key). The files are for --tls-ca, --tls-cert and\n"
    "--tls-key. No existing file is replaced. Keep ca.key secret. Each node needs ca.crt and its "
    "own\n"
    "two files.\n"
    "\n"
    "  ddprun certs DIR [--host NAME[,NAME...]]... [--name NAME] [--days N]\n"
    "\n";

constexpr std::int64_t kMostDays = 36'500;

}  // namespace

HelpCommand CertsHelp() { return HelpFor(kCertsUsage, CertsFlags()); }

Command ParseCerts(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading = ReadFlags(CertsFlags(), arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, CertsHelp)) return *std::move(end);
  std::vector<std::string> errors;
  CertsCommand command;
  if (reading.rest.size() != 1 || reading.rest.front().empty()) {
    errors.push_back(absl::StrCat("certs: expected one folder (found ", reading.rest.size(),
                                  "); ddprun certs DIR"));
  } else {
    command.folder =
        (std::filesystem::path(host.CurrentDirectory()) / reading.rest.front()).lexically_normal();
  }
  const GivenFlag* const name = reading.Find("name");
  const std::string user = host.Environment("USER").value_or("");
  command.name = name != nullptr ? name->value : user.empty() ? "ddprun" : user;
  for (const std::string& node : reading.FindAll("host")) {
    command.nodes.push_back(absl::StrSplit(node, ','));
  }
  if (const GivenFlag* const days = reading.Find("days"); days != nullptr) {
    const auto number = ParseWholeNumber(days->value);
    if (!number.has_value() || *number < 1 || *number > kMostDays) {
      errors.push_back(absl::StrCat(days->origin.place, ": expected a whole number from 1 to ",
                                    kMostDays, " (found ", Quoted(days->value), ")"));
    } else {
      command.days = static_cast<int>(*number);
    }
  }
  if (!errors.empty()) return UsageError(errors);
  return command;
}

}  // namespace ddprun
