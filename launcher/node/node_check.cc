#include "launcher/node/node_check.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "launcher/config/values.h"
#include "launcher/connection/connection.h"
#include "launcher/connection/credentials.h"
#include "launcher/os/local_address.h"

namespace ddprun {
namespace {

using Level = Finding::Level;

constexpr std::int64_t kLongAgo = 1'704'067'200;  // 2024-01-01, before this program was written
constexpr std::uint64_t kFewFiles = 256;
constexpr std::uint64_t kEnoughFiles = 4096;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kLittleSharedMemory = 1024 * kMiB;  // containers often have 64 MiB

Finding CheckAddress(const JobConfig& config, const NodeFacts& facts) {
  if (!facts.address.ok()) {
    return {config.standalone() ? Level::kWarning : Level::kFailure, "address",
            std::string(facts.address.status().message())};
  }
  const bool all_here =
      absl::c_all_of(SplitEndpoints(config.rendezvous.endpoint),
                     [](const std::string& endpoint) { return IsLoopback(HostOf(endpoint)); });
  if (config.nodes.max > 1 && !all_here && IsLoopback(*facts.address)) {
    return {Level::kFailure, "address",
            absl::StrCat(facts.host, " has only ", *facts.address,
                         ", which other nodes cannot reach: give --local-addr")};
  }
  return {Level::kOk, "address", absl::StrCat(*facts.address, " of ", facts.host)};
}

Finding CheckRendezvous(const JobConfig& config, const NodeFacts& facts) {
  if (config.standalone()) return {Level::kOk, "rendezvous", "in the agent: the job has one node"};
  if (!facts.endpoint.ok()) {
    return {Level::kFailure, "rendezvous",
            absl::StrCat(config.rendezvous.endpoint, ": ", facts.endpoint.message())};
  }
  return {Level::kOk, "rendezvous", config.rendezvous.endpoint};
}

Finding CheckPorts(const NodeFacts& facts) {
  if (facts.ports.empty()) return {Level::kOk, "ports", "no port is fixed in advance on this node"};
  if (facts.rendezvous_port) {
    return {Level::kOk, "ports", absl::StrCat("a rendezvous is at ", *facts.rendezvous_port)};
  }
  const std::string taken =
      absl::StrCat("taken by another program: ", absl::StrJoin(facts.taken_ports, ", "));
  if (facts.taken_ports.size() == facts.ports.size()) return {Level::kFailure, "ports", taken};
  if (!facts.taken_ports.empty()) {
    return {Level::kOk, "ports", absl::StrCat(taken, "; the next one is used")};
  }
  return {Level::kOk, "ports", absl::StrCat("free: ", absl::StrJoin(facts.ports, ", "))};
}

Finding CheckClock(const NodeFacts& facts) {
  if (facts.unix_seconds < kLongAgo) {
    return {Level::kFailure, "clock",
            "it is in the past: certificates and MUNGE depend on it; start chronyd or ntpd"};
  }
  if (!facts.clock_synchronized) {
    return {Level::kWarning, "clock",
            "the kernel does not report it as synchronized: certificates and MUNGE depend on it"};
  }
  return {Level::kOk, "clock", "synchronized"};
}

Finding CheckOpenFiles(const NodeFacts& facts) {
  const std::string text = absl::StrCat("at most ", facts.open_files, " open files");
  if (facts.open_files >= kEnoughFiles) return {Level::kOk, "files", text};
  return {facts.open_files < kFewFiles ? Level::kFailure : Level::kWarning, "files",
          absl::StrCat(text, "; each worker, peer and data loader needs some: raise ulimit -Hn")};
}

Finding CheckLockedMemory(const NodeFacts& facts) {
  if (!facts.locked_bytes) return {Level::kOk, "memlock", "unlimited"};
  const std::string text = absl::StrCat("at most ", *facts.locked_bytes / 1024, " KiB locked");
  if (facts.gpus == 0) return {Level::kOk, "memlock", text};
  return {Level::kWarning, "memlock",
          absl::StrCat(text,
                       ": NCCL over InfiniBand needs `ulimit -l unlimited`; under Slurm "
                       "PropagateResourceLimitsExcept=MEMLOCK")};
}

Finding CheckSharedMemory(const NodeFacts& facts) {
  const std::string text =
      absl::StrCat(facts.shared_memory_bytes / kMiB, " MiB are free in /dev/shm");
  if (facts.shared_memory_bytes == 0) return {Level::kFailure, "shm", text};
  if (facts.shared_memory_bytes >= kLittleSharedMemory) return {Level::kOk, "shm", text};
  return {
      Level::kWarning, "shm",
      absl::StrCat(
          text, ": little for snapshots, NCCL and data loaders; in a container, raise --shm-size")};
}

Finding CheckGpus(const JobConfig& config, const NodeFacts& facts) {
  if (facts.gpus_given > facts.gpus) {
    return {Level::kFailure, "gpus",
            absl::StrCat("Slurm gives ", facts.gpus_given, " to this step, but only ", facts.gpus,
                         " can be seen: check /dev/nvidia*, CUDA_VISIBLE_DEVICES, gres.conf")};
  }
  if (facts.gpus == 0) return {Level::kOk, "gpus", "none"};
  if (facts.driver.empty()) {
    return {Level::kFailure, "gpus",
            absl::StrCat(facts.gpus,
                         ", but NVIDIA's driver is not loaded: run nvidia-smi for the reason")};
  }
  const std::string text = absl::StrCat(facts.gpus, ", driver ", facts.driver);
  if (config.nproc_per_node <= facts.gpus) return {Level::kOk, "gpus", text};
  return {
      Level::kWarning, "gpus",
      absl::StrCat(text, ", for ", config.nproc_per_node, " workers: some workers share a GPU")};
}

Finding CheckCommand(const JobConfig& config, const NodeFacts& facts) {
  if (config.command.empty()) return {Level::kOk, "command", "none was given"};
  if (!facts.program.executable.ok()) {
    return {Level::kFailure, "command", std::string(facts.program.executable.message())};
  }
  if (!facts.program.missing.empty()) {
    return {
        Level::kFailure, "command",
        absl::StrCat(config.command.front(), " needs ", absl::StrJoin(facts.program.missing, ", "),
                     ", and the loader does not find it: check LD_LIBRARY_PATH")};
  }
  if (!facts.program.warning.empty()) return {Level::kWarning, "command", facts.program.warning};
  return {Level::kOk, "command",
          absl::StrCat(config.command.front(), facts.program.libraries.empty() ? "" : " with ",
                       absl::StrJoin(facts.program.libraries, ", "))};
}

Finding CheckCredentials(const JobConfig& config, const NodeFacts& facts) {
  if (!facts.credentials.ok()) {
    return {Level::kFailure, "credentials", std::string(facts.credentials.message())};
  }
  if (!facts.credentials_warning.empty()) {
    return {Level::kWarning, "credentials", facts.credentials_warning};
  }
  const CredentialsConfig& given = config.rendezvous.credentials;
  std::vector<std::string> kinds;
  if (!given.token_file.empty()) kinds.push_back("token");
  if (!given.tls_ca.empty() || !given.tls_cert.empty()) kinds.push_back("certificates");
  if (given.munge) kinds.push_back("MUNGE");
  if (UsesOwnToken(given, HostOf(PlacesOf(config.rendezvous).front()), config.insecure)) {
    kinds.push_back("the token of this user's rendezvous on loopback");
  }
  return {Level::kOk, "credentials", kinds.empty() ? "none" : absl::StrJoin(kinds, ", ")};
}

Finding CheckFolders(const NodeFacts& facts) {
  if (facts.unwritable.empty()) return {Level::kOk, "folders", "can be written"};
  return {Level::kFailure, "folders", absl::StrJoin(facts.unwritable, "; ")};
}

const char* ToString(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kWarning:
      return "warning";
    case Level::kFailure:
      return "failure";
  }
  return "failure";
}

}  // namespace

std::vector<Finding> JudgeNode(const JobConfig& config, const NodeFacts& facts) {
  return {CheckAddress(config, facts), CheckRendezvous(config, facts), CheckPorts(facts),
          CheckClock(facts),           CheckOpenFiles(facts),          CheckLockedMemory(facts),
          CheckSharedMemory(facts),    CheckGpus(config, facts),       CheckCommand(config, facts),
          CheckFolders(facts),         CheckCredentials(config, facts)};
}

bool MayRun(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.level == Level::kFailure; });
}

std::string FindingsToText(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    absl::StrAppendFormat(&text, "%-8s %-12s %s\n", ToString(finding.level), finding.name,
                          finding.text);
  }
  return text;
}

std::string FindingsToJson(const std::string& host, const std::vector<Finding>& findings) {
  using Json = nlohmann::ordered_json;
  Json json = {{"host", host}, {"ok", MayRun(findings)}, {"checks", Json::array()}};
  for (const Finding& finding : findings) {
    json["checks"].push_back(
        {{"name", finding.name}, {"result", ToString(finding.level)}, {"text", finding.text}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun
