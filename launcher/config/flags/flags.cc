#include "launcher/config/flags/flags.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/job_values.h"
#include "launcher/config/values.h"
#include "rendezvous/core/limits.h"

namespace ddprun {
namespace {

// Rows of the tables.

// Takes a value that becomes the value of `key`.
constexpr FlagSpec Sets(absl::string_view name, char letter, absl::string_view value,
                        absl::string_view key, absl::string_view help) {
  return {name, letter, value, FlagEffect::kSetsKey, key, "", help};
}

// Takes no value and sets `key` to `fixed`.
constexpr FlagSpec SetsTo(absl::string_view name, absl::string_view key, absl::string_view fixed,
                          absl::string_view help) {
  return {name, 0, "", FlagEffect::kSetsKey, key, fixed, help};
}

// Takes an optional value (--name=VALUE). Without one it sets `key` to `fixed`.
constexpr FlagSpec MaySet(absl::string_view name, absl::string_view value, absl::string_view key,
                          absl::string_view fixed, absl::string_view help) {
  return {name, 0, value, FlagEffect::kMaySetKey, key, fixed, help};
}

constexpr FlagSpec SetsSeconds(absl::string_view name, absl::string_view key,
                               absl::string_view help) {
  return {name, 0, "SECONDS", FlagEffect::kSetsSeconds, key, "", help};
}

constexpr FlagSpec Option(absl::string_view name, char letter, absl::string_view value,
                          absl::string_view help) {
  return {name, letter, value, FlagEffect::kOption, "", "", help};
}

constexpr FlagSpec Immediate(absl::string_view name, char letter, absl::string_view help) {
  return {name, letter, "", FlagEffect::kImmediate, "", "", help};
}

constexpr FlagSpec Refused(absl::string_view name, char letter, absl::string_view value,
                           absl::string_view reason) {
  return {name, letter, value, FlagEffect::kRefused, "", "", reason};
}

// The flags that most users need.
constexpr FlagSpec kEverydayFlags[] = {
    Option("config", 'c', "FILE", "read the job from this YAML file; flags win over it"),
    Sets("nnodes", 0, "N|MIN:MAX", "nodes", "nodes of the job (default {})"),
    Sets("nproc-per-node", 0, "N|auto|gpu|cpu", "nproc_per_node",
         "workers on this node (default {}, as in torchrun)"),
    SetsTo("standalone", "rendezvous.endpoint", "",
           "run on this node alone, without a rendezvous process; the default if no endpoint is "
           "given"),
    Sets("rdzv-endpoint", 0, "HOST:PORT[,...]", "rendezvous.endpoint",
         "address of the rendezvous, where the nodes meet (default port {port}). If nobody listens "
         "there, an agent on that host may start it (--rdzv-backend). If you give several "
         "addresses, start these rendezvous yourself"),
    Sets("rdzv-id", 0, "NAME", "rendezvous.id", "name of the job, the same on every node"),
    Sets("max-restarts", 0, "N", "restart.max_restarts",
         "restarts of the whole job before it fails (default {})"),
    Sets("log-dir", 0, "DIR", "log_dir", "folder for the workers' output (default {})"),
    Option("dry-run", 0, "", "print the resolved job and start nothing"),
    Immediate("help", 'h', "print this text"),
};

constexpr FlagSpec kJobFlags[] = {
    Sets("role", 0, "NAME", "role", "role of the workers (default \"{}\")"),
    Option("module", 'm', "", "COMMAND is a Python module"),
    SetsTo("no-python", "no_python", "true", "execute COMMAND as it is, even if it is called *.py"),
    Option("run-path", 0, "", "run the script COMMAND with Python's runpy.run_path"),
    SetsTo("virtual-local-rank", "virtual_local_rank", "true",
           "give every worker LOCAL_RANK=0 and one visible GPU"),
    Sets("numa-binding", 0, "off|node|socket|exclusive|core-complex", "numa_binding",
         "bind each worker to CPUs near its GPU (default {}); docs/numa.md"),
    Sets("local-addr", 0, "ADDRESS", "local_addr",
         "address at which the other nodes reach this node"),
    Sets("checkpoint-dir", 0, "DIR", "checkpoint_dir", "folder for checkpoints"),
    SetsTo("take-folder", "checkpoint.take_folder", "true",
           "take the checkpoint folder from another training that uses it"),
    SetsTo("start-anew", "checkpoint.start_anew", "true",
           "begin at step 0 although checkpoints exist; nothing is deleted"),
    Sets("state-timeout", 0, "DURATION", "checkpoint.state_timeout",
         "how long to retry a checkpoint that cannot be read, before the job ends (default {})"),
    SetsTo("auto-step", "python.auto_step", "true",
           "report a step after each optimizer.step() of a PyTorch script; docs/python.md"),
    Option("monitor-interval", 0, "SECONDS", "accepted, without effect: the agent does not poll"),
    Option("start-method", 0, "NAME", "spawn, fork or forkserver: accepted, without effect"),
    Option("signals-to-handle", 0, "LIST",
           "accepted, without effect: the agent always handles the signals that may be listed"),
};

constexpr FlagSpec kRendezvousOfJobFlags[] = {
    Option("rdzv-backend", 0, "NAME",
           "who starts the rendezvous. c10d, static: the agent on the endpoint's host; ddprun: "
           "you; etcd: the endpoint is an etcd, where the agents find a running rendezvous, or one "
           "agent starts it. Default: as c10d, but with credentials you start it"),
    Option("rdzv-conf", 0, "K=V,...",
           "in seconds: join_timeout, last_call_timeout, timeout (or connect_timeout), "
           "keep_alive_interval, lease; for etcd: etcd_prefix, protocol, cacert, cert, key"),
    Sets("store", 0, "agent|worker", "store",
         "who serves torch's TCPStore on MASTER_PORT: the agent on rank 0's node, or the worker of "
         "rank 0 (default {})"),
    Option("node-rank", 0, "N", "static mode: rank of this node (default 0)"),
    Sets("master-addr", 0, "ADDRESS", "rendezvous.master_addr",
         "static mode: MASTER_ADDR (default 127.0.0.1)"),
    Sets("master-port", 0, "PORT", "rendezvous.master_port",
         "static mode: MASTER_PORT (default {master-port}); without --rdzv-endpoint the rendezvous "
         "listens on the next port"),
    Sets("daemon-grace", 0, "DURATION", "rendezvous.daemon_grace",
         "how long workers continue without the rendezvous (default {})"),
};

constexpr FlagSpec kEtcdOfJobFlags[] = {
    Sets("etcd-prefix", 0, "PATH", "rendezvous.etcd_prefix",
         "prefix of the keys in etcd (default {})"),
    Sets("etcd-ca", 0, "FILE", "rendezvous.etcd_ca", "authority that signed etcd's certificates"),
    Sets("etcd-cert", 0, "FILE", "rendezvous.etcd_cert",
         "certificate for etcd, if etcd requires one"),
    Sets("etcd-key", 0, "FILE", "rendezvous.etcd_key", "key of --etcd-cert"),
    Sets("etcd-user", 0, "NAME", "rendezvous.etcd_user", "user in etcd, if etcd requires one"),
    Sets("etcd-password-file", 0, "FILE", "rendezvous.etcd_password_file",
         "file with the password of --etcd-user in its first line"),
};

constexpr FlagSpec kRestartFlags[] = {
    Sets("restart-window", 0, "DURATION", "restart.window",
         "--max-restarts counts only the restarts within this time (default: all restarts)"),
    MaySet("warm", "[=N]", "restart.warm", "auto",
           "keep N warm standbys (default one for each worker): processes that wait in ddp::init() "
           "to replace workers at a restart"),
    Sets("preload", 0, "MODULE,...", "restart.preload",
         "Python: one interpreter imports these modules and forks all workers"),
    Sets("in-place-timeout", 0, "DURATION", "restart.in_place_timeout",
         "how long a worker of ddp::run_in_place() may take to leave a generation (default {})"),
    Sets("stop-grace", 0, "DURATION", "stop_grace",
         "how long a worker has from SIGTERM to SIGKILL (default {})"),
    SetsSeconds("shutdown-timeout", "stop_grace", "torchrun's name for --stop-grace"),
    Sets("save-timeout", 0, "DURATION", "save_timeout",
         "how long the workers may take for a checkpoint before a planned stop (default {})"),
};

constexpr FlagSpec kHangFlags[] = {
    Sets("hang-timeout", 0, "auto|off|DURATION", "hang.timeout",
         "the job hangs when no rank has moved for this time (default {}); docs/hangs.md"),
    Sets("hang-startup-timeout", 0, "DURATION", "hang.startup_timeout",
         "replaces --hang-timeout until the first step (default {})"),
    Sets("on-hang", 0, "restart|report", "hang.on_hang",
         "restart the workers after a hang, or only report it (default {}: restart if the program "
         "names its phases, and has saved a state or made no step)"),
    Sets("hang-quarantine", 0, "N", "hang.quarantine",
         "after N hangs of ranks on one host, leave its nodes out of the job, if spares can "
         "replace them (default {}; 0: never)"),
};

constexpr FlagSpec kLogFlags[] = {
    Sets("redirects", 'r', "SPEC", "logs.redirects",
         "streams that go to files only: 0 none, 1 stdout, 2 stderr, 3 both, or by local rank: "
         "0:1,1:3"),
    Sets("tee", 't', "SPEC", "logs.tee",
         "streams that go to files and the console, even if --redirects names them"),
    Sets("local-ranks-filter", 0, "RANKS", "logs.local_ranks_filter",
         "show only these local ranks on the console: 0,2"),
    SetsTo("collapse", "logs.collapse", "true",
           "if many workers of this node write the same line, show it once"),
    Sets("report", 0, "FILE", "report", "write how the job ended to this file, as JSON"),
};

constexpr FlagSpec kMetricsFlags[] = {
    Sets("http", 0, "HOST:PORT", "metrics.http",
         "address on which this node's agent serves /metrics for Prometheus; docs/metrics.md"),
    Sets("http-cert", 0, "FILE", "metrics.http_cert", "certificate for --http"),
    Sets("http-key", 0, "FILE", "metrics.http_key", "key of --http-cert"),
    Sets("http-read-token-file", 0, "FILE", "metrics.http_read_token_file",
         "file with the token that a scraper must send; required on every address except loopback"),
    Sets("http-host", 0, "NAME", "metrics.http_host",
         "another host name that scrapers may use for this node"),
    SetsTo("metrics-per-rank", "metrics.per_rank", "true", "add metrics of each rank"),
};

constexpr FlagSpec kSecurityFlags[] = {
    Sets("token-file", 0, "FILE", "rendezvous.token_file",
         "the token that the rendezvous asks for; docs/security.md"),
    Sets("tls-ca", 0, "FILE", "rendezvous.tls_ca",
         "encrypt, and trust certificates of this authority (`ddprun certs`)"),
    Sets("tls-cert", 0, "FILE", "rendezvous.tls_cert", "this node's certificate"),
    Sets("tls-key", 0, "FILE", "rendezvous.tls_key", "key of --tls-cert"),
    SetsTo("munge", "rendezvous.munge", "true", "authenticate with MUNGE"),
    Sets("munge-socket", 0, "PATH", "rendezvous.munge_socket",
         "munged's socket (default: libmunge's)"),
    Option("insecure", 0, "",
           "use no credentials; a rendezvous that is already running must have --insecure, too"),
};

constexpr FlagSpec kSlurmTaskFlags[] = {
    SetsTo("preflight", "preflight", "true",
           "run the checks of `ddprun doctor` first; a node that fails them stays out of the job"),
};

constexpr FlagSpec kDebuggingFlags[] = {
    Option("json", 0, "", "with --dry-run and doctor: print it as JSON"),
    Option("verbose", 'v', "", "say more"),
    Option("quiet", 'q', "", "say only what went wrong"),
    Immediate("version", 0, "print the version"),
};

constexpr FlagSpec kRefusedFlags[] = {
    Refused("duplicate-stdout-filters", 0, "LIST", "search the files in --log-dir"),
    Refused("duplicate-stderr-filters", 0, "LIST", "search the files in --log-dir"),
    Refused("logs-specs", 0, "NAME", "logs have one layout, under --log-dir"),
    Refused("event-log-handler", 0, "NAME", "--report writes how the job ended"),
};

constexpr FlagSpec kRendezvousFlags[] = {
    Option("listen", 0, "HOST:PORT",
           "address to listen on; port 0: any free port; unix:/PATH: a Unix socket for this user"),
    Option("port-file", 0, "FILE", "write the port number to this file"),
    Option("token-file", 0, "FILE",
           "require a token of this file from every agent; docs/security.md"),
    Option("tls-ca", 0, "FILE", "require a certificate of this authority from every agent"),
    Option("tls-cert", 0, "FILE", "encrypt, with this certificate (`ddprun certs` makes one)"),
    Option("tls-key", 0, "FILE", "key of --tls-cert"),
    Option("munge", 0, "", "authenticate agents with MUNGE"),
    Option("munge-socket", 0, "PATH", "munged's socket (default: libmunge's)"),
    Option("state-dir", 0, "DIR",
           "keep the jobs in a journal in this folder. If this process is started again, they "
           "continue"),
    Option(
        "etcd", 0, "HOST:PORT[,...]",
        "keep the jobs in this etcd. Several rendezvous may share it: one leads, and another takes "
        "over if the leader's host is lost; docs/ha.md"),
    Option("etcd-prefix", 0, "PATH", "prefix of the keys in etcd (default /ddprun)"),
    Option("etcd-ca", 0, "FILE", "authority that signed etcd's certificates"),
    Option("etcd-cert", 0, "FILE", "certificate for etcd, if etcd requires one"),
    Option("etcd-key", 0, "FILE", "key of --etcd-cert"),
    Option("etcd-user", 0, "NAME", "user in etcd, if etcd requires one"),
    Option("etcd-password-file", 0, "FILE",
           "file with the password of --etcd-user in its first line"),
    Option("leader-validity", 0, "DURATION",
           "how long a leader serves without reaching etcd, 5s to 5min (default 5s). A longer time "
           "delays the replacement of a node that is lost shortly before or after a failover"),
    Option("advertise", 0, "HOST[:PORT]",
           "with --etcd: where agents reach this rendezvous (default: where it listens)"),
    Option("events-file", 0, "FILE",
           "append the events, as JSON lines (default: events.jsonl in --state-dir)"),
    Option("log-file", 0, "FILE",
           "log to this file instead of stderr; SIGHUP reopens this file and the event file"),
    Option("http", 0, "HOST:PORT", "serve a live page and metrics on this address; docs/page.md"),
    Option("http-cert", 0, "FILE",
           "certificate for the page (default: plain HTTP on loopback, elsewhere a certificate "
           "made at each start)"),
    Option("http-key", 0, "FILE", "key of --http-cert"),
    {"http-host", 0, "NAME", FlagEffect::kList, "", "",
     "a host name at which browsers reach the page; may be repeated"},
    Option("http-read-token-file", 0, "FILE", "file with the tokens that may read /metrics"),
    Option("http-private", 0, "",
           "also on this host, show nothing without a session (`ddprun page`) or a token"),
    Option("insecure", 0, "", "require no credentials, not even from other hosts"),
    Option("until-idle", 0, "DURATION",
           "end when the last job has ended, or after DURATION without a job"),
    Option("starter", 0, "PID",
           "for agents, with --until-idle: process id of the agent that starts this rendezvous. If "
           "that agent ends, do not wait for a first job. Without --state-dir the journal is in "
           "the state home (docs/security.md)"),
    Option("verbose", 'v', "", "say more"),
    Option("quiet", 'q', "", "say only what went wrong"),
    Immediate("help", 'h', "print this text"),
    Immediate("version", 0, "print the version"),
};

constexpr FlagSpec kValidateFlags[] = {
    Option("json", 0, "", "print the job as JSON"),     Option("verbose", 'v', "", "say more"),
    Option("quiet", 'q', "", "say only what is wrong"), Immediate("help", 'h', "print this text"),
    Immediate("version", 0, "print the version"),
};

constexpr FlagSpec kInitFlags[] = {
    Option("output", 'o', "FILE", "the job file to write (default job.yaml)"),
    Option("force", 0, "", "replace an existing file"),
    Sets("nnodes", 0, "N|MIN:MAX", "nodes", "nodes of the job (default {})"),
    Sets("nproc-per-node", 0, "N|auto|gpu|cpu", "nproc_per_node",
         "workers on each node (default gpu where this host has GPUs, else {})"),
    Sets("rdzv-endpoint", 0, "HOST:PORT[,...]", "rendezvous.endpoint",
         "where the nodes meet (port {port} if left out)"),
    Sets("max-restarts", 0, "N", "restart.max_restarts",
         "restarts of the whole job before it fails (default 3)"),
    Sets("checkpoint-dir", 0, "DIR", "checkpoint_dir", "folder for checkpoints"),
    Immediate("help", 'h', "print this text"),
    Immediate("version", 0, "print the version"),
};

constexpr FlagSpec kCertsFlags[] = {
    {"host", 0, "NAME[,NAME...]", FlagEffect::kList, "", "",
     "names and addresses of one node; repeat it for each node (default: this host)"},
    Option("name", 0, "NAME",
           "owner of the jobs: the common name of all certificates (default $USER)"),
    Option("days", 0, "N", "days until the certificates expire (default {days})"),
    Immediate("help", 'h', "print this text"),
    Immediate("version", 0, "print the version"),
};

constexpr FlagSpec kPythonModuleFlags[] = {
    Immediate("help", 'h', "print this text"),
    Immediate("version", 0, "print the version"),
};

constexpr FlagSpec kSlurmFlags[] = {
    Option("dry-run", 0, "", "print the script and the workers' variables, and submit nothing"),
    Immediate("help", 'h', "print this text"),
    Immediate("version", 0, "print the version"),
};

constexpr FlagSpec kKubernetesFlags[] = {
    Option("jobset", 0, "",
           "print a JobSet instead of a Job: after too many pod failures it starts all pods again, "
           "with the next requeue number"),
    Immediate("help", 'h', "print this text"),
    Immediate("version", 0, "print the version"),
};

struct FlagGroup {
  absl::string_view title;
  absl::Span<const FlagSpec> flags;
};

constexpr FlagGroup kRunGroups[] = {
    {"", kEverydayFlags},
    {"Job", kJobFlags},
    {"Rendezvous", kRendezvousOfJobFlags},
    {"The etcd of --rdzv-backend etcd (docs/ha.md)", kEtcdOfJobFlags},
    {"Restarts and stops", kRestartFlags},
    {"Hangs", kHangFlags},
    {"Logs", kLogFlags},
    {"Metrics", kMetricsFlags},
    {"Security", kSecurityFlags},
    {"Slurm, where ddprun finds nodes, endpoint and id by itself (docs/slurm.md)", kSlurmTaskFlags},
    {"Debugging", kDebuggingFlags},
    {"", kRefusedFlags}};

}  // namespace

absl::Span<const FlagSpec> RunFlags() {
  static const auto* const flags = new std::vector<FlagSpec>([] {
    std::vector<FlagSpec> all;
    for (const auto& [group, rows] : kRunGroups) {
      for (const FlagSpec& row : rows) all.emplace_back(row).group = group;
    }
    return all;
  }());
  return *flags;
}
absl::Span<const FlagSpec> RendezvousFlags() { return kRendezvousFlags; }
// The flags of a job, and the flag that names the etcd of several rendezvous.
absl::Span<const FlagSpec> DoctorFlags() {
  static const auto* const flags = new std::vector<FlagSpec>([] {
    std::vector<FlagSpec> all(RunFlags().begin(), RunFlags().end());
    for (const FlagSpec& row : kRendezvousFlags) {
      if (row.name != "etcd") continue;
      all.emplace_back(row).group = "An etcd that several rendezvous share";
    }
    return all;
  }());
  return *flags;
}
absl::Span<const FlagSpec> ValidateFlags() { return kValidateFlags; }
absl::Span<const FlagSpec> InitFlags() { return kInitFlags; }
absl::Span<const FlagSpec> CertsFlags() { return kCertsFlags; }
absl::Span<const FlagSpec> PythonModuleFlags() { return kPythonModuleFlags; }
absl::Span<const FlagSpec> SlurmFlags() { return kSlurmFlags; }
absl::Span<const FlagSpec> KubernetesFlags() { return kKubernetesFlags; }

std::string HelpOf(const FlagSpec& flag) {
  const JobKey* const key = FindJobKey(flag.key);
  return absl::StrReplaceAll(flag.help,
                             {{"{}", key == nullptr ? "" : FormatValue(*key, JobDraft())},
                              {"{port}", absl::StrCat(kDefaultPort)},
                              {"{master-port}", absl::StrCat(kDefaultMasterPort)},
                              {"{days}", absl::StrCat(kDefaultCertificateDays)},
                              {"{answer}", FormatDuration(kDefaultAnswerTimeout)}});
}

std::string DescribeFlags(absl::Span<const FlagSpec> flags) {
  constexpr std::size_t kHelpColumn = 40;
  std::string text;
  std::vector<std::string> refused;
  absl::string_view group;
  for (const FlagSpec& flag : flags) {
    if (flag.effect == FlagEffect::kRefused) {
      refused.push_back(absl::StrCat("--", flag.name));
      continue;
    }
    if (flag.group != group) absl::StrAppend(&text, "\n", flag.group, ":\n");
    group = flag.group;
    std::string line =
        flag.letter == 0 ? "      " : absl::StrCat("  -", std::string(1, flag.letter), ", ");
    absl::StrAppend(&line, "--", flag.name, flag.IsSwitch() ? "" : " ", flag.value);
    line.resize(std::max(line.size() + 2, kHelpColumn), ' ');
    absl::StrAppend(&text, line, HelpOf(flag), "\n");
  }
  if (!refused.empty()) {
    absl::StrAppend(&text, "\nNot supported yet: ", absl::StrJoin(refused, ", "), "\n");
  }
  return text;
}

}  // namespace ddprun
