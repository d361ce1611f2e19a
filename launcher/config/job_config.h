// One validated description of a job on this node: what the YAML file, the environment and the
// flags say, merged. Everything behind this struct has been checked; code that uses it re-checks
// nothing. yaml-cpp and CLI11 stop in this folder.
#ifndef DDPRUN_LAUNCHER_CONFIG_JOB_CONFIG_H_
#define DDPRUN_LAUNCHER_CONFIG_JOB_CONFIG_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/config/etcd_access.h"
#include "launcher/config/kubernetes/kubernetes_config.h"
#include "launcher/config/launch_place.h"
#include "launcher/config/log_options.h"
#include "launcher/config/slurm/slurm_config.h"
#include "rendezvous/core/job_spec.h"
#include "rendezvous/core/limits.h"
#include "worker/contract/job_name.h"

namespace ddprun {

struct NodesConfig {
  int min = 1;  // the job starts, and goes on after a loss, with at least this many nodes
  int max = 1;  // further nodes wait as spares
};

// How this node shows who it is, and what a rendezvous that it starts asks for. Paths are absolute;
// nothing here is secret. Empty: not used.
struct CredentialsConfig {
  std::string token_file{};
  std::string tls_ca{};
  std::string tls_cert{};
  std::string tls_key{};
  bool munge = false;
  std::string munge_socket{};  // empty: where libmunge looks for it
};

inline constexpr char kEtcdBackend[] = "etcd";

struct RendezvousConfig {
  // host:port of a running `ddprun rendezvous`; of several that share an etcd, with commas. Empty:
  // standalone, the rendezvous runs inside this process on a Unix socket.
  std::string endpoint;
  // ddprun, or kEtcdBackend: the endpoints are those of an etcd, which names the rendezvous.
  std::string backend = "ddprun";
  EtcdAccess etcd{};             // with kEtcdBackend
  std::string id = kUnnamedJob;  // names the job; one daemon serves many
  // Until the endpoint must have answered.
  std::chrono::milliseconds connect_timeout = kDefaultConnectTimeout;
  // How long the job goes on without a rendezvous.
  std::chrono::milliseconds daemon_grace = kDefaultDaemonGrace;
  // 0, Slurm's restart count, or JobSet's restart attempt: a job that was requeued is not disturbed
  // by its former life.
  std::uint32_t requeue_number = 0;
  // Where nobody listens on the endpoint and its address is this host's: start the rendezvous.
  // true, false, or auto: as true where that needs no credentials and none are given.
  std::string autostart = "auto";
  int node_rank = -1;  // static mode: the rank this node asks for; −1: any
  // Where the endpoint's port is another program's: the rendezvous listens on the first of this
  // many ports after it that is free, and every agent looks for it there.
  int spare_ports = 0;
  CredentialsConfig credentials{};
  bool preflight = false;  // check this node as `ddprun doctor` does, before it joins

  bool in_etcd() const { return backend == kEtcdBackend; }
  // One of them leads, and another one does when that is lost.
  bool several() const { return in_etcd() || endpoint.find(',') != std::string::npos; }
};

// What counts as a hang of the job, and what is done then.
struct HangConfig {
  std::string timeout = "auto";    // auto, off, or a duration
  std::string on_hang = "auto";    // auto, restart or report
  std::string signal = "SIGABRT";  // that ends the worker which hangs
};

struct RestartConfig {
  HangConfig hang{};
  int warm = 0;  // standbys that are kept on this node; 0: none
  // For a worker that stays to leave its generation; 0: it is ended instead.
  std::chrono::milliseconds in_place_timeout = kDefaultInPlaceTimeout;
  std::vector<std::string> preload;  // with standbys under Python: the modules they have imported
};

struct CheckpointConfig {
  // The training may take the folder of checkpoints from another one that is using it.
  bool take_folder = false;
  // How long a state that is there and not given out is tried again.
  std::chrono::milliseconds state_timeout = kDefaultStateTimeout;
};

struct ProgramConfig {
  bool virtual_local_rank = false;  // each worker has LOCAL_RANK 0 and sees only its own GPU
  bool auto_step = false;           // Python: a step is told after each optimizer.step()
  // off, node, socket, exclusive or core-complex: which CPUs a worker is bound to
  std::string numa_binding = "off";
  std::string store = kAgentStore;  // or kWorkerStore: who serves torch's store on MASTER_PORT
};

// The agent's own endpoint for Prometheus.
struct MetricsConfig {
  std::string listen{};  // host:port; empty: nothing listens
  std::string cert{};    // PEM files; empty: none
  std::string key{};
  std::string token_file{};  // that scrapers must show; empty: none
  std::string name{};        // by which scrapers know this node, too; empty: none
  bool per_rank = false;     // series of each rank, too
};

// What others learn of the job from this node.
struct ToldConfig {
  std::string report{};  // file for the JSON report; empty: none
  MetricsConfig metrics{};
};

struct JobConfig {
  // What all agents of the job must agree on. A key sets most members directly; JobSpecOf()
  // computes the others.
  JobSpec spec{};
  NodesConfig nodes;
  int nproc_per_node = 1;  // `auto`, `gpu` and `cpu` are resolved to a number by now
  RendezvousConfig rendezvous;
  RestartConfig restart;
  std::chrono::milliseconds stop_grace = kDefaultStopGrace;  // from SIGTERM to SIGKILL
  std::string role = "default";
  std::string local_addr;      // address of this node for the others; empty: chosen by the route
  std::string log_dir;         // absolute; default ./logs
  LogsConfig logs;             // what of the output is shown
  std::string checkpoint_dir;  // absolute; empty: workers are given none
  CheckpointConfig checkpoint{};
  ProgramConfig program{};
  ToldConfig told{};
  std::vector<std::string> command;        // argv of a worker; interpreter already in front
  std::map<std::string, std::string> env;  // set for the workers, over the inherited environment
  SlurmConfig slurm{};                     // what `ddprun slurm` asks for
  KubernetesConfig kubernetes{};           // what `ddprun kubernetes` prints
  bool insecure = false;  // the rendezvous asks nobody who calls, also one that is started here
  LaunchPlace place{};

  bool standalone() const { return rendezvous.endpoint.empty(); }
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_JOB_CONFIG_H_
