#include "launcher/config/job_keys.h"

#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/config/kubernetes/kubernetes_keys.h"
#include "launcher/config/values.h"
#include "rendezvous/core/limits.h"
#include "worker/contract/environment.h"

namespace ddprun {
namespace {

constexpr std::int64_t kLongest = kMaxTimeout.count();
constexpr std::int64_t kLeastLogSize = 64 << 10;
constexpr std::int64_t kMostLogSize = std::int64_t{1} << 50;
constexpr std::int64_t kMaxRunsKept = 1'000'000;

constexpr JobKey kKeys[] = {
    {"", "command", KeyType::kCommand, 0, 0, [](JobDraft& d) -> Field { return &d.config.command; },
     "The program that every worker runs, and its arguments: a list, or one string that is split "
     "at white space with shell quoting but no expansions. A program named *.py runs under "
     "python3 (or $PYTHON_EXEC). ${local_rank} in an argument becomes the worker's local rank. "
     "May be left out when the command line gives it after --."},
    {"", "no_python", KeyType::kBoolean, 0, 0, [](JobDraft& d) -> Field { return &d.no_python; },
     "Execute the command as it is even when its name ends in .py."},
    {"", "nodes", KeyType::kNodes, 1, kMaxNodes,
     [](JobDraft& d) -> Field { return &d.config.nodes; },
     "How many nodes the job has: N, or \"MIN:MAX\" to start, and go on after a loss, with as few "
     "as MIN. More than one needs rendezvous.endpoint."},
    {"", "nproc_per_node", KeyType::kProcesses, 1, kMaxWorkersPerNode,
     [](JobDraft& d) -> Field { return &d.nproc_per_node; },
     "Workers on this node: a number; gpu, one for each visible GPU; cpu, one for each CPU this "
     "process may use; auto, gpu where there is one, else cpu."},
    {"", "role", KeyType::kName, 0, 0, [](JobDraft& d) -> Field { return &d.config.role; },
     "Name of the workers' role: the prefix of their lines on the terminal, and ROLE_NAME."},
    {"", "store", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.program.store; },
     "Who serves torch's store on MASTER_PORT: agent, that of rank 0's node; or worker, rank 0 "
     "itself, for programs that listen there or that meet elsewhere.",
     "agent|worker"},
    {"", "virtual_local_rank", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.program.virtual_local_rank; },
     "Give every worker LOCAL_RANK=0, and in CUDA_VISIBLE_DEVICES the one GPU that is its own."},
    {"", "numa_binding", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.program.numa_binding; },
     "Bind each worker to CPUs near its GPU: node, all of the GPU's NUMA node; socket, all of the "
     "socket; exclusive, its share of the node's cores, which no other worker has; core-complex, "
     "cores of the node that share one L3 cache. Without GPUs the workers are spread over the "
     "NUMA nodes. off: they are not bound.",
     "off|node|socket|exclusive|core-complex"},
    {"", "local_addr", KeyType::kAddress, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.local_addr; },
     "Address or host name at which the other nodes reach this one. Empty: the address from which "
     "this node reaches the rendezvous."},
    {"", "log_dir", KeyType::kPath, 0, 0, [](JobDraft& d) -> Field { return &d.config.log_dir; },
     "Folder for the workers' output. Relative to the current directory."},
    {"", "checkpoint_dir", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.checkpoint_dir; },
     "Folder for checkpoints, given to the workers as DDPRUN_CHECKPOINT_DIR. Relative to the "
     "current directory. Empty: the workers are given none."},
    {"", "report", KeyType::kPath, 0, 0, [](JobDraft& d) -> Field { return &d.config.told.report; },
     "File for the report of the job's end, as JSON. Relative to the current directory. Empty: "
     "none is written."},
    {"", "stop_grace", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.stop_grace; },
     "How long a worker has to end after SIGTERM before SIGKILL; 0 is at once."},
    {"", "save_timeout", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.spec.save_timeout; },
     "How long the workers have to make a checkpoint before a planned stop (a node that is drained "
     "or preempted, `ddprun stop --save`)."},
    {"rendezvous", "endpoint", KeyType::kEndpoints, 1, kMaxPort,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.endpoint; },
     "host:port of a running `ddprun rendezvous`; 29400 where the port is left out; an IPv6 "
     "address in brackets. Several that share an etcd: with commas, at most nine; the agents "
     "follow the one that leads. Empty: standalone, this node alone."},
    {"rendezvous", "backend", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.backend; },
     "etcd: the endpoint is that of an etcd (2379), its members with commas; the agents find the "
     "rendezvous through it, or start it.",
     "ddprun|etcd"},
    {"rendezvous", "etcd_prefix", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.prefix; },
     "What the keys in etcd begin with. Jobs with the same one share a rendezvous."},
    {"rendezvous", "etcd_ca", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.ca_file; },
     "PEM file of the authority of etcd's certificates."},
    {"rendezvous", "etcd_cert", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.certificate_file; },
     "PEM file of the certificate for etcd, if it asks for one."},
    {"rendezvous", "etcd_key", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.key_file; },
     "PEM file of the key of that certificate."},
    {"rendezvous", "etcd_user", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.user; },
     "The user in etcd, where it asks for one."},
    {"rendezvous", "etcd_password_file", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.password_file; },
     "File with its password in the first line."},
    {"rendezvous", "id", KeyType::kName, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.id; },
     "Names the job, equally on every node; one rendezvous serves many jobs. `none`: a standalone "
     "job gets a name of its own."},
    {"rendezvous", "autostart", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.autostart; },
     "Where nobody listens on the endpoint: the agent on whose host its address lives starts the "
     "rendezvous, which ends by itself after the job. auto: as true on loopback and with "
     "--insecure, but where credentials are given the agent waits for it. false: you start it, as "
     "all of several endpoints. With etcd: as true, unless it is false.",
     "auto|true|false"},
    {"rendezvous", "master_addr", KeyType::kAddress, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.spec.master_addr; },
     "MASTER_ADDR for every worker: an address of node rank 0. Empty: chosen."},
    {"rendezvous", "master_port", KeyType::kInteger, 0, kMaxPort,
     [](JobDraft& d) -> Field { return &d.config.spec.master_port; },
     "MASTER_PORT for every worker: a port that is free on node rank 0. 0: chosen, a fresh one for "
     "each start of the workers."},
    {"rendezvous", "join_timeout", KeyType::kDuration, 1, kLongest,
     [](JobDraft& d) -> Field { return &d.config.spec.join_timeout; },
     "How long the first node waits for enough others."},
    {"rendezvous", "last_call", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.spec.last_call; },
     "How long the job waits for further nodes, up to MAX, once MIN have joined."},
    {"rendezvous", "connect_timeout", KeyType::kDuration, 1, kLongest,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.connect_timeout; },
     "How long to try until the rendezvous answers for the first time."},
    {"rendezvous", "token_file", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.credentials.token_file; },
     "File with the token that the rendezvous and its agents share; only its owner may read it. "
     "Relative to the current directory. Empty: no token."},
    {"rendezvous", "tls_ca", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.credentials.tls_ca; },
     "PEM file of the authority whose certificates are trusted: encrypts the connection. A "
     "rendezvous that is started here asks every agent for a certificate of it."},
    {"rendezvous", "tls_cert", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.credentials.tls_cert; },
     "PEM file of this node's certificate."},
    {"rendezvous", "tls_key", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.credentials.tls_key; },
     "PEM file of the certificate's key; only its owner may read it."},
    {"rendezvous", "munge", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.credentials.munge; },
     "Show and ask who the user is by MUNGE, whose daemon runs on every node of the cluster."},
    {"rendezvous", "munge_socket", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.credentials.munge_socket; },
     "Socket of munged. Empty: where libmunge looks for it."},
    {"rendezvous", "heartbeat", KeyType::kDuration, kMinHeartbeat.count(), kMaxHeartbeat.count(),
     [](JobDraft& d) -> Field { return &d.config.spec.heartbeat; },
     "How often the agent of each node says that it lives. The same on every node."},
    {"rendezvous", "lease", KeyType::kDuration, kMinLease.count(), kMaxLease.count(),
     [](JobDraft& d) -> Field { return &d.config.spec.lease; },
     "A node that the rendezvous has not heard from for this time is lost, and has ended its "
     "workers by "
     "then. At least three heartbeats. The same on every node."},
    {"rendezvous", "daemon_grace", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.daemon_grace; },
     "How long a node tries to reach a rendezvous that it has lost before it gives up. Where "
     "nobody "
     "listens on the endpoint the workers go on meanwhile; where there is no answer, not longer "
     "than "
     "the lease."},
    {"restart", "max_restarts", KeyType::kInteger, 0, kMaxRestarts,
     [](JobDraft& d) -> Field { return &d.config.spec.max_restarts; },
     "How many times the whole job may start its workers again after one of them failed."},
    {"restart", "window", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.spec.restart_window; },
     "Let max_restarts count only the restarts this recent: a job of weeks then outlives more "
     "failures than that. 0: all of them count."},
    {"restart", "never_on", KeyType::kNumbers, 1, kMaxExitCode,
     [](JobDraft& d) -> Field { return &d.config.spec.never_restart_on; },
     "Exit codes of a worker that end the job at once, however many restarts are left."},
    {"restart", "max_membership_changes", KeyType::kInteger, 0, kMaxRestarts,
     [](JobDraft& d) -> Field { return &d.config.spec.max_membership_changes; },
     "How many times within window the workers may be started again because a node was lost or "
     "left; one more ends the job. 0: any number of times."},
    {"restart", "quarantine", KeyType::kInteger, 0, kMaxRestarts,
     [](JobDraft& d) -> Field { return &d.config.spec.quarantine; },
     "Leave a node out of the job once its workers were the root cause of this many failures "
     "within "
     "quarantine_window. 0: never."},
    {"restart", "quarantine_window", KeyType::kDuration, 1, kLongest,
     [](JobDraft& d) -> Field { return &d.config.spec.quarantine_window; },
     "How long a failure counts against its node."},
    {"restart", "warm", KeyType::kStandbys, 0, kMaxWorkersPerNode,
     [](JobDraft& d) -> Field { return &d.warm; },
     "Warm standbys to keep on this node: processes of the command that have loaded their "
     "libraries "
     "and wait in ddp::init() to take a worker's place at a restart. auto is one for each worker. "
     "The command runs up to ddp::init() ahead of time."},
    {"restart", "preload", KeyType::kModules, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.restart.preload; },
     "For a Python program: the modules that one interpreter of this node imports, such as "
     "\"torch,numpy\". Every worker and every warm standby is forked from it. The program itself "
     "needs no change."},
    {"restart", "in_place_timeout", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.restart.in_place_timeout; },
     "How long a worker that uses ddp::run_in_place() has to leave its generation, and stay for "
     "the "
     "next one, before it is ended as other workers are. 0: it is ended at once."},
    {"hang", "timeout", KeyType::kHangTimeout, kShortestHangTimeout.count(), kLongest,
     [](JobDraft& d) -> Field { return &d.config.restart.hang.timeout; },
     "How long no rank may move before the job hangs. auto: 30 s, or five times the longest time "
     "that was seen without a move in the same phase, whichever is longer. off: no hang is looked "
     "for. Only programs that tell how far they are, are judged."},
    {"hang", "startup_timeout", KeyType::kDuration, 1, kLongest,
     [](JobDraft& d) -> Field { return &d.config.spec.hang_startup_timeout; },
     "The same before the first step of the workers, and in a phase that was never seen."},
    {"hang", "on_hang", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.restart.hang.on_hang; },
     "restart: end the workers and start them again, as after a failure. report: say which rank "
     "hangs, and leave the workers alone. auto: restart where the program names its phases and "
     "nothing is lost by it, else report.",
     "auto|restart|report"},
    {"hang", "signal", KeyType::kSignal, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.restart.hang.signal; },
     "The signal that ends the worker that hangs; SIGKILL follows within 2 s."},
    {"hang", "quarantine", KeyType::kInteger, 0, kMaxRestarts,
     [](JobDraft& d) -> Field { return &d.config.spec.hang_quarantine; },
     "Leave a node out of the job after this many hangs of ranks on it, if another node waits to "
     "take its place. 0: never."},
    {"checkpoint", "take_folder", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.checkpoint.take_folder; },
     "Take checkpoint_dir also from another training that is using it, which saves nothing there "
     "from then on. Else this one waits until the other one was silent for 30 s, and is refused "
     "where it is not."},
    {"checkpoint", "start_anew", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.spec.start_anew; },
     "Begin the training at step 0 although there are checkpoints. Nothing is moved or deleted. "
     "A job that Slurm or JobSet has requeued goes on from its own."},
    {"checkpoint", "state_timeout", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.checkpoint.state_timeout; },
     "How long a folder or a file of checkpoints that cannot be read is tried again before the job "
     "ends with exit code 66. Missing permission ends it at once."},
    {"python", "auto_step", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.program.auto_step; },
     "Report a step after each optimizer.step() of a PyTorch script that reports none itself."},
    {"logs", "redirects", KeyType::kStreams, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.logs.redirects; },
     "Streams of the workers that go to their files only: 0 none, 1 stdout, 2 stderr, 3 both; or "
     "by local rank, such as \"0:1,1:3\". The others are shown on the console too."},
    {"logs", "tee", KeyType::kStreams, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.logs.tee; },
     "Streams that go to the files and to the console, whatever redirects says; written like it."},
    {"logs", "local_ranks_filter", KeyType::kLocalRanks, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.logs.local_ranks_filter; },
     "Only these local ranks are shown on the console, such as \"0,2\". Empty: all. The files have "
     "everything."},
    {"logs", "collapse", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.logs.collapse; },
     "Show a line that several workers of a node write at the same time once, with their ranks in "
     "front. A line may be shown 50 ms late."},
    {"logs", "when_full", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.logs.when_full; },
     "Where the disk of the log files is full: drop what comes, and say how much once there is "
     "room "
     "again, or let the workers wait.",
     "drop|wait"},
    {"logs", "max_size", KeyType::kSize, kLeastLogSize, kMostLogSize,
     [](JobDraft& d) -> Field { return &d.config.logs.max_size; },
     "Size at which a worker's log file is renamed, stdout.log to stdout.log.1, and begins anew; "
     "what was in stdout.log.1 is gone then. 0: no file is renamed."},
    {"logs", "keep_runs", KeyType::kInteger, 0, kMaxRunsKept,
     [](JobDraft& d) -> Field { return &d.config.logs.keep_runs; },
     "How many of this job's run folders of this node stay in log_dir, this run's included; older "
     "ones are removed when a run begins. 0: all stay."},
    {"metrics", "http", KeyType::kEndpoint, 0, kMaxPort,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.listen; },
     "host:port on which this node's agent serves /metrics for Prometheus, /healthz and /readyz. "
     "Port 0: any that is free. Empty: nothing listens."},
    {"metrics", "http_cert", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.cert; },
     "PEM file of the certificate for it. Empty: HTTP on loopback, elsewhere a certificate that is "
     "made at the start."},
    {"metrics", "http_key", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.key; },
     "PEM file of the certificate's key; only its owner may read it."},
    {"metrics", "http_read_token_file", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.token_file; },
     "File with the token that a scraper must show, as Authorization: Bearer TOKEN; only its owner "
     "may read it. Off loopback there must be one, unless --insecure is given."},
    {"metrics", "http_host", KeyType::kAddress, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.name; },
     "One more name by which scrapers may ask for this node, beside its addresses, its host name "
     "and the host of metrics.http."},
    {"metrics", "per_rank", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.per_rank; },
     "Four series for each rank of this node, beside those of all its workers."},
    {"", "preflight", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.preflight; },
     "Check each node as `ddprun doctor` does before it joins; one that fails stays out of the "
     "job."},
    {"", "env", KeyType::kEnvironment, 0, 0, [](JobDraft& d) -> Field { return &d.config.env; },
     "Variables for the workers, over the environment that ddprun itself has."},
    {"slurm", "nodes", KeyType::kInteger, 0, kMaxNodes,
     [](JobDraft& d) -> Field { return &d.config.slurm.nodes; },
     "Nodes that train. 0: as many as the key nodes has at most, else one."},
    {"slurm", "spare_nodes", KeyType::kInteger, 0, kMaxNodes,
     [](JobDraft& d) -> Field { return &d.config.slurm.spare_nodes; },
     "Nodes beyond these, which wait to take the place of one that fails."},
    {"slurm", "job_name", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.slurm.job_name; },
     "Name of the job for Slurm. Empty: that of the file, without .yaml."},
    {"slurm", "partition", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.slurm.partition; },
     "Slurm's --partition. Empty: its default, as for all that follow."},
    {"slurm", "account", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.slurm.account; }, "Slurm's --account: who pays."},
    {"slurm", "qos", KeyType::kText, 0, 0, [](JobDraft& d) -> Field { return &d.config.slurm.qos; },
     "Slurm's --qos: the quality of service."},
    {"slurm", "constraint", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.slurm.constraint; },
     "Slurm's --constraint: features that a node must have."},
    {"slurm", "time", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.slurm.time; },
     "Slurm's --time, the limit: minutes, or days-hours:minutes:seconds."},
    {"slurm", "mem", KeyType::kText, 0, 0, [](JobDraft& d) -> Field { return &d.config.slurm.mem; },
     "Slurm's --mem, memory of each node, such as 64G."},
    {"slurm", "gpus_per_node", KeyType::kInteger, 0, kMaxWorkersPerNode,
     [](JobDraft& d) -> Field { return &d.config.slurm.gpus_per_node; },
     "Slurm's --gpus-per-node. 0: none is asked for."},
    {"slurm", "cpus_per_task", KeyType::kInteger, 0, kMaxNodes,
     [](JobDraft& d) -> Field { return &d.config.slurm.cpus_per_task; },
     "Slurm's --cpus-per-task, for all workers of a node together. 0: its default."},
    {"slurm", "warning", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.slurm.warning; },
     "How long before the time limit the job is told to make a checkpoint and to end, after which "
     "it "
     "goes back to the queue. 0: it is not told."},
    {"slurm", "requeue", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.slurm.requeue; },
     "Put the job back into the queue when it was preempted, ran out of time or lost a node."},
    {"slurm", "extra", KeyType::kOptions, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.slurm.extra; },
     "Further options of sbatch, each one word: a list, or one string."},
};

constexpr JobSection kSections[] = {
    {"rendezvous", "How the nodes of a job find each other."},
    {"restart", "What happens when a worker fails."},
    {"hang", "What counts as a hang, and what happens then."},
    {"checkpoint", "How the job deals with its checkpoints."},
    {"python", "What ddprun does for Python programs."},
    {"logs", "What of the workers' output is shown on the console."},
    {"metrics", "What this node's agent tells Prometheus."},
    {"slurm", "What `ddprun slurm` asks Slurm for."},
    {"kubernetes", "What `ddprun kubernetes` asks Kubernetes for."},
};

}  // namespace

std::string JobKey::Path() const {
  return section.empty() ? std::string(name) : absl::StrCat(section, ".", name);
}

std::vector<absl::string_view> JobKey::Choices() const { return absl::StrSplit(choices, '|'); }

absl::Span<const JobKey> JobKeys() {
  static const auto* const keys = new std::vector<JobKey>([] {
    std::vector<JobKey> all(std::begin(kKeys), std::end(kKeys));
    all.insert(all.end(), KubernetesKeys().begin(), KubernetesKeys().end());
    return all;
  }());
  return *keys;
}

absl::Span<const JobSection> JobSections() { return kSections; }

const JobKey* FindJobKey(absl::string_view path) {
  for (const JobKey& key : JobKeys()) {
    if (key.Path() == path) return &key;
  }
  return nullptr;
}

std::string WhyVariableIsRefused(absl::string_view name) {
  for (const env::Variable& variable : env::kVariables) {
    if (name != variable.name || variable.scope == env::Scope::kUnlessSet) continue;
    if (*variable.key == '\0') return "ddprun sets it for each worker; leave it out";
    return absl::StrCat("ddprun sets it; use the key ", variable.key);
  }
  return "";
}

}  // namespace ddprun
