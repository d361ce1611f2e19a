// JobConfig: the validated description of a job on this node, merged from the YAML file, the
// environment and the flags. Everything in it has been checked; code that uses it does not check
// again. Of the launcher, only this folder uses yaml-cpp and CLI11.
#ifndef DDPRUN_LAUNCHER_CONFIG_JOB_CONFIG_H_
#define DDPRUN_LAUNCHER_CONFIG_JOB_CONFIG_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/config/etcd/etcd_access.h"
#include "launcher/config/kubernetes/kubernetes_config.h"
#include "launcher/config/launch_place.h"
#include "launcher/config/log_options.h"
#include "launcher/config/slurm/slurm_config.h"
#include "rendezvous/core/job_spec.h"
#include "rendezvous/core/limits.h"
#include "worker/contract/job_name.h"

namespace ddprun {

struct NodesConfig {
  int min = 1;  // needed to start the job, and to continue it after a loss
  int max = 1;  // further nodes wait as spares
};

// The credentials that this node uses. A rendezvous that this node starts asks for the same. Paths
// are absolute, and nothing here is secret. Empty: not used.
struct CredentialsConfig {
  std::string token_file{};
  std::string tls_ca{};
  std::string tls_cert{};
  std::string tls_key{};
  bool munge = false;
  std::string munge_socket{};  // empty: slurm.conf's, else libmunge's default
};

inline constexpr char kEtcdBackend[] = "etcd";

struct RendezvousConfig {
  // host:port of the rendezvous; several that share an etcd are separated by commas. Empty:
  // standalone, the rendezvous runs in this process on a Unix socket.
  std::string endpoint;
  // "ddprun", or kEtcdBackend: then the endpoints are those of an etcd, which names the rendezvous.
  std::string backend = "ddprun";
  EtcdAccess etcd{};             // with kEtcdBackend
  std::string id = kUnnamedJob;  // names the job; one daemon serves many
  // The endpoint must answer within this time.
  std::chrono::milliseconds connect_timeout = kDefaultConnectTimeout;
  // How long an agent without a session waits before it gives up, once a rendezvous has sent it a
  // message.
  std::chrono::milliseconds daemon_grace = kDefaultDaemonGrace;
  // 0, Slurm's restart count, or JobSet's restart attempt. It protects a requeued job from
  // processes that still run from before the requeue.
  std::uint32_t requeue_number = 0;
  // Whether this agent may start the rendezvous. Values: true, false, or auto. It does so only if
  // no process listens at the endpoint, and the address belongs to this host. auto means true if
  // no credentials are given, and the endpoint is on loopback or --insecure is given. With
  // kEtcdBackend the agent does so if nobody leads, at its own address, and auto is true.
  std::string autostart = "auto";
  // The node rank that this node asks for, in static mode or under Slurm; −1: any.
  int node_rank = -1;
  // If another program has the endpoint's port, the rendezvous uses the first free port of the next
  // `spare_ports` ports, and every agent looks for it on these ports.
  int spare_ports = 0;
  CredentialsConfig credentials{};
  bool preflight = false;  // check this node as `ddprun doctor` does, before it joins

  bool in_etcd() const { return backend == kEtcdBackend; }
  // Several rendezvous: one leads, and another takes over when the leader is lost.
  bool several() const { return in_etcd() || endpoint.find(',') != std::string::npos; }
};

// When the job counts as hung, and the reaction.
struct HangConfig {
  std::string timeout = "auto";    // auto, off, or a duration
  std::string on_hang = "auto";    // auto, restart or report
  std::string signal = "SIGABRT";  // sent to a worker that hangs
};

struct RestartConfig {
  HangConfig hang{};
  int warm = 0;  // number of standbys on this node; 0: none
  // How long a worker that uses ddp::run_in_place() may take to leave its generation. Then the
  // agent ends it. 0: the agent ends it at once.
  std::chrono::milliseconds in_place_timeout = kDefaultInPlaceTimeout;
  std::vector<std::string> preload;  // modules that the fork server imports
};

struct CheckpointConfig {
  // This training is allowed to take the folder of checkpoints from another training that uses it.
  bool take_folder = false;
  // If a folder or file of checkpoints cannot be read, reading is retried for this time, unless
  // permission is denied.
  std::chrono::milliseconds state_timeout = kDefaultStateTimeout;
};

struct ProgramConfig {
  bool virtual_local_rank = false;  // each worker has LOCAL_RANK 0 and sees only its own GPU
  bool auto_step = false;           // Python: each optimizer.step() reports a step
  // The CPUs that a worker is bound to: off, node, socket, exclusive or core-complex (numa.md).
  std::string numa_binding = "off";
  std::string store = kAgentStore;  // who serves torch's store on MASTER_PORT; or kWorkerStore
};

// The agent's own endpoint for Prometheus.
struct MetricsConfig {
  std::string listen{};  // host:port; empty: nothing listens
  std::string cert{};    // PEM files; empty: none
  std::string key{};
  std::string token_file{};  // required from scrapers; empty: none
  std::string name{};        // a further name of this node for scrapers; empty: none
  bool per_rank = false;     // also series of each rank
};

// Reports of this node about the job.
struct ToldConfig {
  std::string report{};  // file for the JSON report; empty: none
  MetricsConfig metrics{};
};

struct JobConfig {
  // Settings on which all agents of the job must agree. Keys set most members directly; JobSpecOf()
  // computes the other members.
  JobSpec spec{};
  NodesConfig nodes;
  int nproc_per_node = 1;  // `auto`, `gpu` and `cpu` are already resolved
  RendezvousConfig rendezvous;
  RestartConfig restart;
  std::chrono::milliseconds stop_grace = kDefaultStopGrace;  // from SIGTERM to SIGKILL
  std::string role = "default";
  // This node's address for other nodes. Empty: the address from which it reaches the
  // rendezvous, or, if that is on loopback and the endpoint is a name, an address of this host.
  std::string local_addr;
  std::string log_dir;         // absolute; default ./logs
  LogsConfig logs;             // which output is shown
  std::string checkpoint_dir;  // absolute; empty: workers are given none
  CheckpointConfig checkpoint{};
  ProgramConfig program{};
  ToldConfig told{};
  std::vector<std::string> command;  // argv of a worker, including the interpreter
  // Set for the workers; overrides the inherited environment.
  std::map<std::string, std::string> env;
  SlurmConfig slurm{};            // for `ddprun slurm`
  KubernetesConfig kubernetes{};  // for `ddprun kubernetes`
  bool insecure = false;  // no credentials are needed, also if this node starts the rendezvous
  LaunchPlace place{};

  bool standalone() const { return rendezvous.endpoint.empty(); }
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_JOB_CONFIG_H_
