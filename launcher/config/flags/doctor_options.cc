// The command line of `ddprun doctor`.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "launcher/config/etcd/etcd_options.h"
#include "launcher/config/flags/run_options.h"
#include "launcher/config/flags/subcommands.h"

namespace ddprun {
namespace {

constexpr absl::string_view kDoctorUsage =
    "Checks whether a job can run on this node: names and addresses, ports, the clock, limits, "
    "memory,\n"
    "GPUs, the libraries of COMMAND, and credentials. It takes the options of a job, and starts no "
    "job.\n"
    "With --etcd or --rdzv-backend etcd it also checks the etcd of the rendezvous: its members, "
    "their\n"
    "leader, its response time, alarms, TLS. It writes nothing to etcd.\n"
    "Exit code 1 if the job could not run.\n"
    "\n"
    "  ddprun doctor [--json] [OPTIONS] [--] [COMMAND [ARGS...]]\n"
    "\n";

}  // namespace

HelpCommand DoctorHelp() { return HelpFor(kDoctorUsage, DoctorFlags()); }

// As for a job, but the command is optional.
Command ParseDoctor(const std::vector<std::string>& arguments, const Host& host) {
  FlagReading reading = ReadFlags(DoctorFlags(), arguments, Positionals::kEndOptions, host);
  if (auto end = EarlyEnd(reading, DoctorHelp)) return *std::move(end);
  const bool json = reading.IsOn("json");
  EtcdConfig etcd;
  const bool names_etcd = reading.Find("etcd") != nullptr;
  if (names_etcd) {
    std::vector<std::string> errors;
    etcd = TakeEtcd(reading, host, &errors);
    if (!errors.empty()) return UsageError(errors);
  }
  std::erase_if(reading.given, [names_etcd](const GivenFlag& flag) {
    return flag.spec->name == "json" || (names_etcd && absl::StartsWith(flag.spec->name, "etcd"));
  });
  const bool nothing_to_run = reading.rest.empty() && reading.Find("config") == nullptr;
  if (nothing_to_run) reading.rest = {"true"};
  Command job = MakeRunCommand(reading, host);
  auto* const run = std::get_if<RunCommand>(&job);
  if (run == nullptr) return job;
  if (nothing_to_run) run->config.command.clear();
  if (!names_etcd && run->config.rendezvous.in_etcd()) {
    static_cast<EtcdAccess&>(etcd) = run->config.rendezvous.etcd;
  }
  return DoctorCommand{std::move(run->config), std::move(etcd), json};
}

}  // namespace ddprun
