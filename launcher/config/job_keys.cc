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
     "Number of nodes of the job: N, or \"MIN:MAX\". With MIN:MAX the job starts with at least MIN "
     "nodes, and continues after a loss with at least MIN. More than one node needs "
     "rendezvous.endpoint."},
    {"", "nproc_per_node", KeyType::kProcesses, 1, kMaxWorkersPerNode,
     [](JobDraft& d) -> Field { return &d.nproc_per_node; },
     "Workers on this node: a number; gpu: one for each visible GPU; cpu: one for each CPU that "
     "this process may use; auto: gpu if there is a visible GPU, else cpu."},
    {"", "role", KeyType::kName, 0, 0, [](JobDraft& d) -> Field { return &d.config.role; },
     "Name of the workers' role. It is the prefix of their lines on the console, and ROLE_NAME."},
    {"", "store", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.program.store; },
     "Who serves torch's TCPStore on MASTER_PORT. agent: the agent on rank 0's node. worker: the "
     "worker of rank 0, for programs that listen on this port themselves or use another "
     "rendezvous.",
     "agent|worker"},
    {"", "virtual_local_rank", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.program.virtual_local_rank; },
     "Give every worker LOCAL_RANK=0, and set CUDA_VISIBLE_DEVICES to the one GPU of this worker."},
    {"", "numa_binding", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.program.numa_binding; },
     "Bind each worker to CPUs near its GPU. node: all CPUs of the GPU's NUMA node. socket: all "
     "CPUs of the socket. exclusive: a share of the NUMA node's cores, for this worker only. "
     "core-complex: cores of the NUMA node that share one L3 cache. off: no binding. Without GPUs "
     "the workers are spread over the NUMA nodes.",
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
     "current directory. Empty: the workers get no such folder."},
    {"", "report", KeyType::kPath, 0, 0, [](JobDraft& d) -> Field { return &d.config.told.report; },
     "File for the report of the job's end, as JSON. Relative to the current directory. Empty: "
     "none is written."},
    {"", "stop_grace", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.stop_grace; },
     "How long a worker may take to end after SIGTERM; then it gets SIGKILL. 0: it gets SIGKILL at "
     "once."},
    {"", "save_timeout", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.spec.save_timeout; },
     "How long the workers have to make a checkpoint before a planned stop (a node that is drained "
     "or preempted, `ddprun stop --save`)."},
    {"", "preflight", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.preflight; },
     "Run the checks of `ddprun doctor` on each node before it joins. A node that fails them stays "
     "out of the job."},
    {"", "env", KeyType::kEnvironment, 0, 0, [](JobDraft& d) -> Field { return &d.config.env; },
     "Environment variables for the workers. They win over ddprun's own environment."},
    {"rendezvous", "endpoint", KeyType::kEndpoints, 1, kMaxPort,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.endpoint; },
     "host:port of the rendezvous; the default port is 29400; an IPv6 address is in brackets. "
     "Several rendezvous that share an etcd: at most nine addresses, separated by commas; the "
     "agents follow the leader. Empty: standalone, the job runs on this node alone."},
    {"rendezvous", "backend", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.backend; },
     "ddprun: the endpoint is a rendezvous. etcd: the endpoint names the members of an etcd, "
     "separated by commas (default port 2379); the agents find the rendezvous through etcd, or one "
     "agent starts it.",
     "ddprun|etcd"},
    {"rendezvous", "etcd_prefix", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.prefix; },
     "Prefix of the keys in etcd. Jobs with the same prefix share a rendezvous."},
    {"rendezvous", "etcd_ca", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.ca_file; },
     "PEM file of the authority that signed etcd's certificates."},
    {"rendezvous", "etcd_cert", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.certificate_file; },
     "PEM file of the certificate for etcd, if etcd requires one."},
    {"rendezvous", "etcd_key", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.key_file; },
     "PEM file of the key of etcd_cert."},
    {"rendezvous", "etcd_user", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.user; },
     "User in etcd, if etcd requires one."},
    {"rendezvous", "etcd_password_file", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.etcd.password_file; },
     "File with the password of etcd_user in its first line."},
    {"rendezvous", "id", KeyType::kName, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.id; },
     "Name of the job, the same on every node; one rendezvous serves many jobs. `none`: under "
     "Slurm the number of the Slurm job; in a pod the name of its Job or JobSet; elsewhere the job "
     "has no name."},
    {"rendezvous", "autostart", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.autostart; },
     "Who starts the rendezvous if nobody listens on the endpoint. true: the agent on the "
     "endpoint's host; this rendezvous ends after the job. false: you start it. auto: as true on "
     "loopback or with --insecure; if credentials are given, the agent waits until you have "
     "started it. With several endpoints you start all of them. With etcd, auto is the same as "
     "true.",
     "auto|true|false"},
    {"rendezvous", "master_addr", KeyType::kAddress, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.spec.master_addr; },
     "MASTER_ADDR for every worker: an address of node rank 0. Empty: ddprun chooses it."},
    {"rendezvous", "master_port", KeyType::kInteger, 0, kMaxPort,
     [](JobDraft& d) -> Field { return &d.config.spec.master_port; },
     "MASTER_PORT for every worker: a port that is free on node rank 0. 0: ddprun chooses a new "
     "port for each start of the workers."},
    {"rendezvous", "join_timeout", KeyType::kDuration, 1, kLongest,
     [](JobDraft& d) -> Field { return &d.config.spec.join_timeout; },
     "How long the first node waits for enough other nodes."},
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
     "PEM file of the authority whose certificates this node trusts. With it the connection is "
     "encrypted. A rendezvous that this agent starts requires a certificate of this authority from "
     "every agent."},
    {"rendezvous", "tls_cert", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.credentials.tls_cert; },
     "PEM file of this node's certificate."},
    {"rendezvous", "tls_key", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.credentials.tls_key; },
     "PEM file of the certificate's key; only its owner may read it."},
    {"rendezvous", "munge", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.credentials.munge; },
     "Authenticate with MUNGE: agents and the rendezvous prove their users to each other. munged "
     "must run on every node."},
    {"rendezvous", "munge_socket", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.credentials.munge_socket; },
     "Socket of munged. Empty: the one that AuthInfo in slurm.conf names, or where libmunge looks "
     "for it."},
    {"rendezvous", "heartbeat", KeyType::kDuration, kMinHeartbeat.count(), kMaxHeartbeat.count(),
     [](JobDraft& d) -> Field { return &d.config.spec.heartbeat; },
     "Interval of the heartbeats that the agent of each node sends to the rendezvous. The same on "
     "every node."},
    {"rendezvous", "lease", KeyType::kDuration, kMinLease.count(), kMaxLease.count(),
     [](JobDraft& d) -> Field { return &d.config.spec.lease; },
     "A node is lost when the rendezvous has heard nothing from it for this time. Its agent has "
     "ended its workers by then. At least three heartbeats. The same on every node."},
    {"rendezvous", "daemon_grace", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.daemon_grace; },
     "How long an agent that has lost the rendezvous tries to reach it again, before it gives up. "
     "Meanwhile the workers continue if the endpoint refuses connections. If the endpoint does not "
     "answer, they are ended before the lease is over."},
    {"restart", "max_restarts", KeyType::kInteger, 0, kMaxRestarts,
     [](JobDraft& d) -> Field { return &d.config.spec.max_restarts; },
     "How many times the whole job may start its workers again after a worker failed."},
    {"restart", "window", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.spec.restart_window; },
     "max_restarts counts only the restarts within this time, so a job of weeks can survive more "
     "failures in total. 0: all restarts count."},
    {"restart", "never_on", KeyType::kNumbers, 1, kMaxExitCode,
     [](JobDraft& d) -> Field { return &d.config.spec.never_restart_on; },
     "Exit codes of a worker that end the job at once, even if restarts are left."},
    {"restart", "max_membership_changes", KeyType::kInteger, 0, kMaxRestarts,
     [](JobDraft& d) -> Field { return &d.config.spec.max_membership_changes; },
     "How many times within restart.window the workers may be started again because a node was "
     "lost or left. After that, the next lost or leaving node ends the job. 0: no limit."},
    {"restart", "quarantine", KeyType::kInteger, 0, kMaxRestarts,
     [](JobDraft& d) -> Field { return &d.config.spec.quarantine; },
     "Leave the nodes of a host out of the job once workers on this host were the root cause of "
     "this many failures within quarantine_window. 0: never."},
    {"restart", "quarantine_window", KeyType::kDuration, 1, kLongest,
     [](JobDraft& d) -> Field { return &d.config.spec.quarantine_window; },
     "How long a failure counts against its host."},
    {"restart", "warm", KeyType::kStandbys, 0, kMaxWorkersPerNode,
     [](JobDraft& d) -> Field { return &d.warm; },
     "Number of warm standbys on this node: processes that run the command up to ddp::init() ahead "
     "of time, and wait there with their libraries loaded. At a restart they replace workers. "
     "auto: one for each worker."},
    {"restart", "preload", KeyType::kModules, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.restart.preload; },
     "For a Python program: one interpreter on this node imports these modules, such as "
     "\"torch,numpy\". Every worker and every warm standby is forked from this interpreter. The "
     "program itself needs no change."},
    {"restart", "in_place_timeout", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.restart.in_place_timeout; },
     "A worker that uses ddp::run_in_place() leaves its generation and stays for the next one. "
     "This is how long it may take to leave; then it is ended like other workers. 0: it is ended "
     "at once."},
    {"hang", "timeout", KeyType::kHangTimeout, kShortestHangTimeout.count(), kLongest,
     [](JobDraft& d) -> Field { return &d.config.restart.hang.timeout; },
     "The job hangs when no rank has moved for this time. A move is a step or another sign of "
     "progress. auto: the longer of 30 s and five times the longest interval without a move in the "
     "same phase so far. off: hangs are not detected. Only programs that report their progress are "
     "judged."},
    {"hang", "startup_timeout", KeyType::kDuration, 1, kLongest,
     [](JobDraft& d) -> Field { return &d.config.spec.hang_startup_timeout; },
     "Replaces hang.timeout until the first step of the workers. With hang.timeout auto it also "
     "holds in a phase that was never seen before."},
    {"hang", "on_hang", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.restart.hang.on_hang; },
     "restart: end the workers and start them again, as after a failure. report: report which rank "
     "hangs, and leave the workers alone. auto: restart if the program names its phases, and has "
     "either saved a state or made no step yet; else report.",
     "auto|restart|report"},
    {"hang", "signal", KeyType::kSignal, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.restart.hang.signal; },
     "The signal that ends the hanging worker; SIGKILL follows within 2 s."},
    {"hang", "quarantine", KeyType::kInteger, 0, kMaxRestarts,
     [](JobDraft& d) -> Field { return &d.config.spec.hang_quarantine; },
     "After this many hangs of ranks on one host, leave its nodes out of the job, if other nodes "
     "wait to replace them. 0: never."},
    {"checkpoint", "take_folder", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.checkpoint.take_folder; },
     "Take checkpoint_dir even if another training uses it. The other training saves nothing there "
     "from then on. By default, this training waits for the other one to be silent for 30 s; if "
     "the other one is not silent, this training is refused."},
    {"checkpoint", "start_anew", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.spec.start_anew; },
     "Begin the training at step 0 although there are checkpoints. Nothing is moved or deleted. A "
     "job that Slurm or JobSet has requeued continues from its own checkpoints."},
    {"checkpoint", "state_timeout", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.checkpoint.state_timeout; },
     "How long ddprun retries to read a folder or a file of checkpoints, before the job ends with "
     "exit code 66. If the permission is missing, the job ends at once."},
    {"python", "auto_step", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.program.auto_step; },
     "Report a step after each optimizer.step() of a PyTorch script that reports none itself."},
    {"logs", "redirects", KeyType::kStreams, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.logs.redirects; },
     "Streams of the workers that go to their files only: 0 none, 1 stdout, 2 stderr, 3 both; or "
     "by local rank, such as \"0:1,1:3\". Other streams go to the files and to the console."},
    {"logs", "tee", KeyType::kStreams, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.logs.tee; },
     "Streams that go to the files and to the console, even if logs.redirects names them. The "
     "values are those of logs.redirects."},
    {"logs", "local_ranks_filter", KeyType::kLocalRanks, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.logs.local_ranks_filter; },
     "The console shows only these local ranks, such as \"0,2\". Empty: all. The files have the "
     "output of all ranks."},
    {"logs", "collapse", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.logs.collapse; },
     "If several workers of a node write the same line at about the same time, show it once, with "
     "their ranks in front. Each line may be shown 50 ms late."},
    {"logs", "when_full", KeyType::kChoice, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.logs.when_full; },
     "What happens when the disk of the log files is full. drop: output is lost; when there is "
     "room again, a line says how much was lost. wait: the workers wait for room.",
     "drop|wait"},
    {"logs", "max_size", KeyType::kSize, kLeastLogSize, kMostLogSize,
     [](JobDraft& d) -> Field { return &d.config.logs.max_size; },
     "Maximum size of a worker's log file. When stdout.log would grow beyond it, ddprun renames "
     "the file to stdout.log.1, which replaces an older stdout.log.1, and begins a new stdout.log. "
     "0: no limit."},
    {"logs", "keep_runs", KeyType::kInteger, 0, kMaxRunsKept,
     [](JobDraft& d) -> Field { return &d.config.logs.keep_runs; },
     "How many of this job's run folders of this host stay in log_dir, including the folder of "
     "this run. When a run begins, older folders are removed. 0: all stay."},
    {"metrics", "http", KeyType::kEndpoint, 0, kMaxPort,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.listen; },
     "host:port on which this node's agent serves /metrics for Prometheus, /healthz and /readyz. "
     "Port 0: any free port. Empty: no metrics are served."},
    {"metrics", "http_cert", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.cert; },
     "PEM file of the certificate for metrics.http. Empty: plain HTTP on loopback, elsewhere HTTPS "
     "with a certificate made at the start."},
    {"metrics", "http_key", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.key; },
     "PEM file of the certificate's key; only its owner may read it."},
    {"metrics", "http_read_token_file", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.token_file; },
     "File with the token that a scraper must send, as Authorization: Bearer TOKEN; only the "
     "file's owner may read it. Required on every address except loopback, unless --insecure is "
     "given."},
    {"metrics", "http_host", KeyType::kAddress, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.name; },
     "Another host name that scrapers may use for this node, besides its addresses, its host name "
     "and the host of metrics.http."},
    {"metrics", "per_rank", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.told.metrics.per_rank; },
     "Add four metrics for each rank of this node to the metrics of all its workers."},
    {"slurm", "nodes", KeyType::kInteger, 0, kMaxNodes,
     [](JobDraft& d) -> Field { return &d.config.slurm.nodes; },
     "Number of nodes that train. 0: the maximum of the key nodes; if that is not given, one."},
    {"slurm", "spare_nodes", KeyType::kInteger, 0, kMaxNodes,
     [](JobDraft& d) -> Field { return &d.config.slurm.spare_nodes; },
     "Number of spare nodes in addition. They wait to replace a node that fails."},
    {"slurm", "job_name", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.slurm.job_name; },
     "Name of the job for Slurm. Empty: the name of the file without .yaml."},
    {"slurm", "partition", KeyType::kText, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.slurm.partition; },
     "Slurm's --partition. Empty: Slurm's default. This also holds for account, qos, constraint, "
     "time and mem."},
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
     "Slurm's --gpus-per-node. 0: no GPU is requested."},
    {"slurm", "cpus_per_task", KeyType::kInteger, 0, kMaxNodes,
     [](JobDraft& d) -> Field { return &d.config.slurm.cpus_per_task; },
     "Slurm's --cpus-per-task, for all workers of a node together. 0: Slurm's default."},
    {"slurm", "warning", KeyType::kDuration, 0, kLongest,
     [](JobDraft& d) -> Field { return &d.config.slurm.warning; },
     "How long before the time limit Slurm tells the job to make a checkpoint and to end. The job "
     "then goes back to the queue. 0: Slurm does not tell it."},
    {"slurm", "requeue", KeyType::kBoolean, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.slurm.requeue; },
     "Put the job back into the queue if it was preempted, reached its time limit or lost a node."},
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
    {"logs", "Where the workers' output goes."},
    {"metrics", "Metrics that this node's agent serves to Prometheus."},
    {"slurm", "What `ddprun slurm` requests from Slurm."},
    {"kubernetes", "What `ddprun kubernetes` requests from Kubernetes."},
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
