// A job in a pod, with and without flags.
#include "launcher/config/kubernetes/kubernetes_pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace kubernetes_pod_test {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kHostsHead[] =
    "# Kubernetes-managed hosts file.\n"
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n";

// A host that looks like a pod of kubelet. `service`: its headless service; "": none.
FakeHost Pod(const std::string& name, const std::string& service = "train") {
  FakeHost host;
  host.name = name;
  host.variables["KUBERNETES_SERVICE_HOST"] = "10.96.0.1";
  const std::string whole =
      service.empty() ? "" : name + "." + service + ".default.svc.cluster.local\t";
  host.hosts_file = kHostsHead + ("10.244.1.7\t" + whole) + name + "\n";
  return host;
}

// Pod 2 of an Indexed Job whose manifest `ddprun kubernetes` has printed.
FakeHost PrintedPod() {
  FakeHost host = Pod("train-2");
  host.variables.insert({{"JOB_COMPLETION_INDEX", "2"},
                         {"DDPRUN_NNODES", "4"},
                         {"DDPRUN_RDZV_ENDPOINT", "train-0.train:29400"},
                         {"DDPRUN_TOKEN_FILE", "/etc/ddprun/secret/token"},
                         {"DDPRUN_SAVE_TIMEOUT", "105s"},
                         {"DDPRUN_LOCAL_ADDR", "10.244.1.7"}});
  return host;
}

// Pod 2 of another manifest. It has a headless service, but no variables for ddprun.
FakeHost ForeignPod() {
  FakeHost host = Pod("train-2");
  host.variables["JOB_COMPLETION_INDEX"] = "2";
  return host;
}

JobConfig ConfigOf(const std::vector<std::string>& arguments, const FakeHost& host) {
  return RunOf(arguments, host).config;
}

TEST(KubernetesPodTest, APrintedManifestGivesAJobAllThatFlagsWouldSay) {
  const JobConfig config = ConfigOf({"./train"}, PrintedPod());
  EXPECT_EQ(config.nodes.min, 4);
  EXPECT_EQ(config.nodes.max, 4);
  EXPECT_EQ(config.nproc_per_node, 1);
  EXPECT_EQ(config.rendezvous.endpoint, "train-0.train.default.svc.cluster.local:29400");
  EXPECT_EQ(config.rendezvous.id, "train");
  EXPECT_EQ(config.rendezvous.node_rank, -1) << "ranks follow the names of the pods";
  EXPECT_EQ(config.rendezvous.autostart, "false");
  EXPECT_EQ(config.rendezvous.requeue_number, 0U);
  EXPECT_EQ(config.local_addr, "10.244.1.7");
  EXPECT_EQ(config.spec.save_timeout, seconds(105));
  EXPECT_TRUE(config.place.ends_with_process);
  EXPECT_FALSE(config.place.has_later_lives);
  EXPECT_FALSE(config.place.slurm_requeues);
  EXPECT_EQ(config.place.all_nodes, 0) << "a pod that is lost is replaced";
}

TEST(KubernetesPodTest, IndexZeroStartsTheRendezvous) {
  FakeHost host = PrintedPod();
  host.name = "train-0";
  host.variables["JOB_COMPLETION_INDEX"] = "0";
  EXPECT_EQ(ConfigOf({"./train"}, host).rendezvous.autostart, "true");
  EXPECT_EQ(ConfigOf({"--rdzv-backend=c10d", "./train"}, host).rendezvous.autostart, "true");
  // The other pods start none, without a look whether the endpoint is this host: the name of the
  // endpoint may not be known yet.
  EXPECT_EQ(ConfigOf({"--rdzv-backend=c10d", "./train"}, PrintedPod()).rendezvous.autostart,
            "false");
  // With this backend, the user starts the rendezvous.
  EXPECT_EQ(ConfigOf({"--rdzv-backend=ddprun", "./train"}, host).rendezvous.autostart, "false");
}

TEST(KubernetesPodTest, TimesFitInThePodsGraceAndPodsWaitForEachOther) {
  const JobConfig config = ConfigOf({"--nnodes=4", "--insecure", "./train"}, ForeignPod());
  EXPECT_EQ(config.spec.save_timeout, seconds(20));
  EXPECT_EQ(config.stop_grace, seconds(5));
  EXPECT_EQ(config.rendezvous.connect_timeout, minutes(10));
  EXPECT_EQ(config.rendezvous.daemon_grace, minutes(10));
  const JobConfig given =
      ConfigOf({"--nnodes=4", "--insecure", "--save-timeout=3min", "--stop-grace=1s",
                "--daemon-grace=2min", "--rdzv-conf=connect_timeout=7", "./train"},
               ForeignPod());
  EXPECT_EQ(given.spec.save_timeout, seconds(180));
  EXPECT_EQ(given.stop_grace, seconds(1));
  EXPECT_EQ(given.rendezvous.connect_timeout, seconds(7));
  EXPECT_EQ(given.rendezvous.daemon_grace, minutes(2));
}

// Kubernetes kills every pod after 30 s. Seen red where only pods with an index had these limits.
TEST(KubernetesPodTest, TimesFitInTheGraceOfEveryPod) {
  const JobConfig alone = ConfigOf({"--standalone", "./train"}, ForeignPod());
  EXPECT_EQ(alone.spec.save_timeout, seconds(20));
  EXPECT_EQ(alone.stop_grace, seconds(5));
  const JobConfig deployed = ConfigOf({"./train"}, Pod("shell-5d4f8c-xk2lp"));
  EXPECT_EQ(deployed.spec.save_timeout, seconds(20));
  const JobConfig given = ConfigOf({"--save-timeout=3min", "./train"}, Pod("shell-5d4f8c-xk2lp"));
  EXPECT_EQ(given.spec.save_timeout, seconds(180));
  EXPECT_EQ(ConfigOf({"./train"}, FakeHost()).spec.save_timeout, seconds(60));
}

TEST(KubernetesPodTest, AnotherManifestNeedsTheNumberOfPodsAndIsToldWhatToAdd) {
  const std::string error = ErrorOf({"./train"}, kExitUsage, ForeignPod());
  EXPECT_THAT(error, AllOf(StartsWith("--nnodes: expected the number of pods"),
                           HasSubstr("pod train-2 with index 2"),
                           HasSubstr("{name: DDPRUN_NNODES, value: \"4\"}"),
                           HasSubstr("value: \"train-0.train:29400\"}"),
                           HasSubstr("subdomain: train "), HasSubstr("clusterIP: None")));
  const JobConfig config = ConfigOf({"--nnodes=4", "--token-file=t", "./train"}, ForeignPod());
  EXPECT_EQ(config.rendezvous.endpoint, "train-0.train.default.svc.cluster.local:29400");
  EXPECT_EQ(config.local_addr, "10.244.1.7") << "from /etc/hosts";
}

// The JobSet controller gives the service the name of the JobSet, and tells the pods nothing more.
TEST(KubernetesPodTest, AForeignJobSetIsToldWhatAJobSetLacks) {
  FakeHost host = Pod("train-workers-0-1");
  host.variables["JOB_COMPLETION_INDEX"] = "1";
  const std::string error = ErrorOf({"./train"}, kExitUsage, host);
  for (const char* const part :
       {"# of the JobSet\n", "subdomain: train, publishNotReadyAddresses: true}",
        "value: \"train-workers-0-0.train:29400\"}",
        "\n        - name: JOBSET_NAME\n          valueFrom", "- name: JOBSET_UID\n",
        "- name: JOBSET_RESTART_ATTEMPT\n",
        "['jobset.sigs.k8s.io/restart-attempt']\"}}\n        volumeMounts:"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
  EXPECT_THAT(error, Not(HasSubstr("clusterIP"))) << "JobSet makes the Service itself";
}

TEST(KubernetesPodTest, AForeignStatefulSetIsToldWhatAStatefulSetLacks) {
  const std::string error = ErrorOf({"./train"}, kExitUsage, Pod("train-1", "trainers"));
  for (const char* const part :
       {"# of the StatefulSet\n      serviceName: trainers ", "podManagementPolicy: Parallel",
        "clusterIP: None", "value: \"train-0.trainers:29400\"}",
        "secretName: train, defaultMode: 256}}"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
  EXPECT_THAT(error, testing::AllOf(Not(HasSubstr("subdomain:")), Not(HasSubstr("JOBSET_"))));
}

TEST(KubernetesPodTest, AJobFileMaySayTheNumberOfPods) {
  const JobFile file("{command: a, nodes: 4, rendezvous: {id: mine}}");
  const JobConfig config = ConfigOf({"-c", file.path(), "--insecure"}, ForeignPod());
  EXPECT_EQ(config.rendezvous.id, "mine");
  EXPECT_EQ(config.nodes.max, 4);
}

TEST(KubernetesPodTest, WithoutAHeadlessServiceNobodyFindsIndexZero) {
  FakeHost host = Pod("train-2", "");
  host.variables["JOB_COMPLETION_INDEX"] = "2";
  EXPECT_THAT(ErrorOf({"--nnodes=4", "--insecure", "./train"}, kExitUsage, host),
              AllOf(StartsWith("--rdzv-endpoint: no headless Service gives pod train-2 a name"),
                    HasSubstr("subdomain: train ")));
  EXPECT_EQ(
      ConfigOf({"--nnodes=4", "--insecure", "--rdzv-endpoint=x:1", "a"}, host).rendezvous.endpoint,
      "x:1");
}

TEST(KubernetesPodTest, WithoutCredentialsEveryPodRefusesAtOnce) {
  for (const char* const index : {"0", "2"}) {
    FakeHost host = Pod(std::string("train-") + index);
    host.variables["JOB_COMPLETION_INDEX"] = index;
    EXPECT_THAT(
        ErrorOf({"--nnodes=4", "./train"}, kExitUsage, host),
        AllOf(StartsWith("--token-file: expected a token"), HasSubstr("{name: DDPRUN_TOKEN_FILE")));
    for (const char* const flag : {"--token-file=t", "--tls-ca=c", "--tls-cert=c", "--munge"}) {
      EXPECT_EQ(ConfigOf({"--nnodes=4", flag, "./train"}, host).nodes.max, 4) << flag;
    }
  }
}

TEST(KubernetesPodTest, ARendezvousOfTheUsersIsLeftAlone) {
  FakeHost host = PrintedPod();
  host.variables["DDPRUN_RDZV_ENDPOINT"] = "rendezvous:29400";
  host.variables.erase("DDPRUN_TOKEN_FILE");
  const JobConfig config = ConfigOf({"./train"}, host);
  EXPECT_EQ(config.rendezvous.endpoint, "rendezvous:29400");
  EXPECT_EQ(config.rendezvous.autostart, "auto");
  EXPECT_EQ(config.local_addr, "10.244.1.7");
}

TEST(KubernetesPodTest, EachPodOnItsOwnWhereItsUserSaysSo) {
  for (const char* const flag : {"--nnodes=1", "--standalone"}) {
    const JobConfig config = ConfigOf({flag, "./train"}, ForeignPod());
    EXPECT_TRUE(config.standalone()) << flag;
  }
  EXPECT_TRUE(ConfigOf({"--nnodes=1", "./train"}, ForeignPod()).place.ends_with_process);
}

TEST(KubernetesPodTest, StaticModeIsLeftAlone) {
  const JobConfig config =
      ConfigOf({"--nnodes=4", "--node-rank=1", "--master-addr=10.0.0.1", "--insecure", "./train"},
               ForeignPod());
  EXPECT_EQ(config.rendezvous.node_rank, 1);
  EXPECT_EQ(config.rendezvous.endpoint, "10.0.0.1:29501");
  EXPECT_FALSE(config.place.ends_with_process);
}

// The rendezvous refuses a pod that asks for a rank if another pod holds this rank, or if others
// ask for none. This can happen in an elastic job, with spares, and in the second Job of a JobSet,
// whose indexes begin at 0 again.
TEST(KubernetesPodTest, NoPodAsksForARank) {
  for (const char* const nodes : {"--nnodes=4", "--nnodes=2:4", "--nnodes=2"}) {
    const JobConfig config = ConfigOf({nodes, "--insecure", "./train"}, ForeignPod());
    EXPECT_EQ(config.rendezvous.node_rank, -1) << nodes;
    EXPECT_EQ(config.place.all_nodes, 0) << nodes;
  }
}

// Pod 1 of the first Job of a JobSet, and of its second one.
TEST(KubernetesPodTest, AJobSetsPodsMeetAtTheFirstPodOfItsFirstJob) {
  FakeHost host = Pod("train-node-0-1");
  host.variables.insert({{"JOB_COMPLETION_INDEX", "1"}, {"JOBSET_NAME", "train"}});
  const std::vector<std::string> arguments = {"--nnodes=4", "--insecure", "./train"};
  const JobConfig first = ConfigOf(arguments, host);
  EXPECT_EQ(first.rendezvous.endpoint, "train-node-0-0.train.default.svc.cluster.local:29400");
  EXPECT_EQ(first.rendezvous.id, "train-node");
  EXPECT_EQ(first.rendezvous.node_rank, -1);
  host = Pod("train-node-1-0");
  host.variables.insert({{"JOB_COMPLETION_INDEX", "0"}, {"JOBSET_NAME", "train"}});
  const JobConfig second = ConfigOf(arguments, host);
  EXPECT_EQ(second.rendezvous.endpoint, first.rendezvous.endpoint);
  EXPECT_EQ(second.rendezvous.id, first.rendezvous.id);
  EXPECT_EQ(second.rendezvous.node_rank, -1);
  EXPECT_EQ(second.rendezvous.autostart, "false");
}

TEST(KubernetesPodTest, OnlyJobSetsRestartAttemptIsARequeue) {
  FakeHost host = Pod("train-node-0-1");
  host.variables.insert({{"JOB_COMPLETION_INDEX", "1"},
                         {"JOBSET_NAME", "train"},
                         {"JOBSET_UID", "6c1d0e2f-aaaa-bbbb-cccc-0123456789ab"},
                         {"JOBSET_RESTART_ATTEMPT", "2"}});
  const std::vector<std::string> arguments = {"--nnodes=4", "--insecure", "./train"};
  const JobConfig config = ConfigOf(arguments, host);
  EXPECT_EQ(config.rendezvous.requeue_number, 2U);
  EXPECT_EQ(config.rendezvous.id, "train-node.6c1d0e2f") << "not an earlier JobSet of this name";
  EXPECT_TRUE(config.place.has_later_lives);
  host.variables["JOBSET_RESTART_ATTEMPT"] = "x";
  EXPECT_THAT(ErrorOf(arguments, kExitUsage, host),
              StartsWith("JOBSET_RESTART_ATTEMPT: expected a whole number"));
}

TEST(KubernetesPodTest, AStatefulSetsPodsHaveTheirIndexInTheirNames) {
  const FakeHost host = Pod("train-3");
  const JobConfig config = ConfigOf({"--nnodes=4", "--insecure", "./train"}, host);
  EXPECT_EQ(config.rendezvous.endpoint, "train-0.train.default.svc.cluster.local:29400");
  EXPECT_EQ(config.rendezvous.autostart, "false");
  EXPECT_EQ(ConfigOf({"--nnodes=4", "--insecure", "a"}, Pod("train-0")).rendezvous.autostart,
            "true");
  EXPECT_THAT(ErrorOf({"./train"}, kExitUsage, host), StartsWith("--nnodes: expected"));
}

TEST(KubernetesPodTest, OtherPodsAndHostsAreAsTheyWere) {
  FakeHost outside = Pod("train-3");
  outside.variables.clear();
  FakeHost other_name = Pod("shell-5d4f8c-xk2lp");
  for (const FakeHost& host : {outside, other_name, Pod("train-3", ""), FakeHost()}) {
    const JobConfig config = ConfigOf({"./train"}, host);
    EXPECT_TRUE(config.standalone());
    EXPECT_EQ(config.rendezvous.id, "none");
    EXPECT_FALSE(config.place.ends_with_process);
  }
}

TEST(KubernetesPodTest, WhatKubernetesWouldNotSetIsNamed) {
  FakeHost host = ForeignPod();
  host.variables["JOB_COMPLETION_INDEX"] = "-1";
  EXPECT_THAT(ErrorOf({"./train"}, kExitUsage, host),
              StartsWith("JOB_COMPLETION_INDEX: expected a whole number"));
}

// With hostNetwork, the pod has the name of its machine.
TEST(KubernetesPodTest, APodWithAnotherNameNeedsAnEndpoint) {
  FakeHost host;
  host.name = "gpu-node-17";
  host.variables["JOB_COMPLETION_INDEX"] = "2";
  EXPECT_THAT(ErrorOf({"--nnodes=4", "--insecure", "a"}, kExitUsage, host),
              StartsWith("--rdzv-endpoint: no headless Service gives pod gpu-node-17"));
  const JobConfig config =
      ConfigOf({"--nnodes=4", "--insecure", "--rdzv-endpoint=train-0.train:29400", "a"}, host);
  EXPECT_EQ(config.rendezvous.endpoint, "train-0.train:29400");
  EXPECT_EQ(config.rendezvous.id, "none");
}

TEST(KubernetesPodTest, WorkersAreTheGpusThatThePodSees) {
  FakeHost host = PrintedPod();
  host.gpu_devices = 8;
  EXPECT_EQ(ConfigOf({"a"}, host).nproc_per_node, 8);
  EXPECT_EQ(ConfigOf({"--nproc-per-node=3", "a"}, host).nproc_per_node, 3);
  const TempDir folder;
  std::ofstream(folder / "job.yaml") << "command: a\nenv: {CUDA_VISIBLE_DEVICES: ''}\n";
  EXPECT_EQ(ConfigOf({"--config=" + folder / "job.yaml"}, host).nproc_per_node, 1);
}

// The device plugin lists no instance in CUDA_VISIBLE_DEVICES. Each worker would use the first one.
TEST(KubernetesPodTest, SeveralInstancesOfADividedGpuAreRefusedInAPodToo) {
  FakeHost host = PrintedPod();
  host.instances = 1;
  EXPECT_EQ(ConfigOf({"a"}, host).nproc_per_node, 1);
  host.instances = 2;
  EXPECT_THAT(ErrorOf({"a"}, kExitUsage, host), HasSubstr("2 instances of divided GPUs (MIG)"));
}

// The nodes of a Slurm cluster can be pods.
TEST(KubernetesPodTest, ASlurmStepInAPodIsSlurms) {
  FakeHost host = ForeignPod();
  host.variables.insert({{"SLURM_JOB_ID", "4711"},
                         {"SLURM_STEP_NUM_NODES", "4"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_STEP_NODELIST", "n[1-4]"}});
  const JobConfig config = ConfigOf({"./train"}, host);
  EXPECT_TRUE(config.place.slurm_requeues);
  EXPECT_EQ(config.rendezvous.id, "4711");
}

}  // namespace kubernetes_pod_test
}  // namespace ddprun
