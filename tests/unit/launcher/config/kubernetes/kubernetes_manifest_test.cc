// The manifest of `ddprun kubernetes`. tests/kubernetes shows that Kubernetes accepts it.
#include "launcher/config/kubernetes/kubernetes_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "launcher/config/yaml_config.h"
#include "launcher/config/yaml_text.h"
#include "tests/support/golden.h"
#include "tests/unit/launcher/config/parse_command.h"

namespace ddprun {
namespace kubernetes_manifest_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef\n";

KubernetesJob JobOf(const std::string& name) {
  KubernetesJob job;
  const std::string path = std::string(DDPRUN_SOURCE_DIR) + "/tests/data/kubernetes/" + name;
  const absl::Status status = LoadJobFileInto(path + ".yaml", &job.draft);
  EXPECT_TRUE(status.ok()) << status;
  std::ifstream file(path + ".yaml");
  job.job_file = std::string(std::istreambuf_iterator<char>(file), {});
  const std::string& given = job.draft.config.kubernetes.name;
  job.name = given.empty() ? name : given;
  if (job.draft.config.nodes.max > 1) job.secrets["token"] = kToken;
  return job;
}

std::string ProblemsOf(const std::string& text) {
  const JobFile file(text);
  KubernetesJob job;
  const absl::Status status = LoadJobFileInto(file.path(), &job.draft);
  if (!status.ok()) return std::string(status.message());
  const std::string& name = job.draft.config.kubernetes.name;
  job.name = name.empty() ? "job" : name;
  std::string all;
  for (const std::string& problem : KubernetesProblems(job, "job.yaml")) all += problem + "\n";
  for (const std::string& warning : KubernetesWarnings(job)) all += "warning: " + warning + "\n";
  return all;
}

class KubernetesManifestTest : public testing::TestWithParam<std::string> {};

TEST_P(KubernetesManifestTest, IsAsItIsWrittenDown) {
  KubernetesJob job = JobOf(GetParam());
  EXPECT_THAT(KubernetesProblems(job, "job.yaml"), IsEmpty());
  ExpectGolden("tests/data/kubernetes/" + GetParam() + ".job.yaml", KubernetesManifest(job));
  job.jobset = true;
  ExpectGolden("tests/data/kubernetes/" + GetParam() + ".jobset.yaml", KubernetesManifest(job));
}

INSTANTIATE_TEST_SUITE_P(Files, KubernetesManifestTest,
                         testing::Values("plain", "elastic", "single", "hostile"),
                         [](const auto& info) { return info.param; });

// What Kubernetes does with a pod that ends with this code. The first rule that matches decides. If
// none matches, the end counts for backoffLimit: "Count".
std::string VerdictOn(int code, const YAML::Node& rules) {
  for (const YAML::Node& rule : rules) {
    const YAML::Node on = rule["onExitCodes"];
    if (!on) continue;
    const auto codes = on["values"].as<std::vector<int>>();
    EXPECT_TRUE(std::is_sorted(codes.begin(), codes.end())) << "Kubernetes refuses the manifest";
    const bool is_in = std::find(codes.begin(), codes.end(), code) != codes.end();
    if (is_in == (on["operator"].as<std::string>() == "In"))
      return rule["action"].as<std::string>();
  }
  return "Count";
}

TEST(KubernetesManifestTest, EveryExitCodeOfAPodHasItsVerdict) {
  const auto documents = YAML::LoadAll(KubernetesManifest(JobOf("plain")));
  const YAML::Node rules = documents.back()["spec"]["podFailurePolicy"]["rules"];
  for (int code = 1; code < 256; ++code) {
    std::string expected = "FailJob";  // exit codes of workers
    if (code == 75) expected = "Ignore";
    // 69, 70: ddprun. 137, 143: signals. The container runtime: 128 for a container that it could
    // not start, 255 for one whose end it did not see.
    for (const int counted : {69, 70, 137, 143, 128, 255}) {
      if (code == counted) expected = "Count";
    }
    EXPECT_EQ(VerdictOn(code, rules), expected) << code;
  }
}

TEST(KubernetesManifestTest, SaveFitsInThePodsGrace) {
  KubernetesJob job = JobOf("plain");
  EXPECT_THAT(KubernetesManifest(job), HasSubstr("{name: DDPRUN_SAVE_TIMEOUT, value: \"105s\"}"));
  job.draft.config.kubernetes.grace = std::chrono::seconds(30);
  EXPECT_THAT(KubernetesManifest(job), HasSubstr("{name: DDPRUN_SAVE_TIMEOUT, value: \"15s\"}"));
}

// Every pod fails once if the rendezvous is away for too long, so the limit grows with the number
// of pods. Seen red with 6 for any job.
TEST(KubernetesManifestTest, EachPodMayFailSixTimesUnlessTheJobFileSaysOtherwise) {
  KubernetesJob job = JobOf("plain");
  job.draft.config.nodes = {16, 16};
  EXPECT_THAT(KubernetesManifest(job), HasSubstr("backoffLimit: 96\n"));
  job = JobOf("elastic");
  EXPECT_THAT(KubernetesManifest(job), HasSubstr("backoffLimit: 2\n"));
}

// YAML 1.1 reads `on` as true. Seen red when names had no quotes.
TEST(KubernetesManifestTest, NamesStayWords) {
  KubernetesJob job = JobOf("plain");
  job.name = "on";
  job.draft.config.kubernetes.name_space = "no";
  const std::string text = KubernetesManifest(job);
  EXPECT_THAT(text, HasSubstr("name: \"on\"\n  namespace: \"no\"\n"));
  EXPECT_THAT(text, HasSubstr("instance: \"on\"\n"));
  EXPECT_THAT(text, HasSubstr("subdomain: \"on\"\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr(": on\n")));
}

// The job file names a rendezvous, which requires certificates.
TEST(KubernetesManifestTest, HasWhatTheJobFileNames) {
  KubernetesJob job = JobOf("plain");
  job.draft.origins["rendezvous.endpoint"] = {};
  job.secrets = {{"ca.crt", "a\nb\n"}, {"node.crt", "c"}, {"node.key", "d\n"}};
  const std::string text = KubernetesManifest(job);
  EXPECT_THAT(text, Not(HasSubstr("DDPRUN_RDZV_ENDPOINT")));
  EXPECT_THAT(text, Not(HasSubstr("DDPRUN_TOKEN_FILE")));
  EXPECT_THAT(text, HasSubstr("{name: DDPRUN_TLS_CA, value: /etc/ddprun/secret/ca.crt}"));
  EXPECT_THAT(text, HasSubstr("  ca.crt: |2\n    a\n    b\n  node.crt: |2-\n    c\n"));
}

TEST(KubernetesManifestTest, WithoutSecretsThereIsNoSecret) {
  KubernetesJob job = JobOf("plain");
  job.secrets.clear();
  EXPECT_THAT(KubernetesManifest(job), Not(HasSubstr("ecret")));
}

TEST(KubernetesManifestTest, EveryProblemHasItsPlace) {
  const std::string all = ProblemsOf(
      "command: a\n"
      "checkpoint_dir: checkpoints\n"
      "rendezvous: {munge: true}\n"
      "kubernetes:\n"
      "  name: My_job\n"
      "  namespace: -x\n"
      "  cpu: 8 cores\n"
      "  memory: 64GB\n"
      "  shm_size: 1.Gi\n"
      "  gpu_resource: MIG 1g\n"
      "  volume_claim: c\n");
  EXPECT_THAT(all, StartsWith("job.yaml:1:1: kubernetes.image: expected the image of the pods"));
  for (const char* const part :
       {".yaml:5:9: kubernetes.name: expected at most 40 lower-case letters",
        ".yaml:6:14: kubernetes.namespace: expected", ".yaml:7:8: kubernetes.cpu: expected",
        "(found \"8 cores\")", ".yaml:8:11: kubernetes.memory: expected",
        ".yaml:9:13: kubernetes.shm_size: expected",
        ".yaml:10:17: kubernetes.gpu_resource: expected a domain and a name",
        ".yaml:2:17: checkpoint_dir: expected an absolute path",
        ".yaml:3:21: rendezvous.munge: expected no MUNGE"}) {
    EXPECT_THAT(all, HasSubstr(part));
  }
}

// ddprun can count only NVIDIA's GPUs by itself.
TEST(KubernetesManifestTest, PodsWithOtherGpusAreToldTheNumberOfWorkers) {
  KubernetesJob job = JobOf("plain");
  EXPECT_THAT(KubernetesManifest(job), Not(HasSubstr("DDPRUN_NPROC_PER_NODE")));
  job.draft.config.kubernetes.gpu_resource = "amd.com/gpu";
  EXPECT_THAT(KubernetesManifest(job), HasSubstr("{name: DDPRUN_NPROC_PER_NODE, value: \"8\"}"));
  EXPECT_THAT(KubernetesManifest(job), HasSubstr("amd.com/gpu: 8\n"));
  job.draft.origins["nproc_per_node"] = {};  // set by the job file
  EXPECT_THAT(KubernetesManifest(job), Not(HasSubstr("DDPRUN_NPROC_PER_NODE")));
}

TEST(KubernetesManifestTest, InstancesOfDividedGpusAreAskedForByTheirName) {
  KubernetesJob job = JobOf("plain");
  job.draft.config.kubernetes.gpu_resource = "nvidia.com/mig-1g.5gb";
  const std::string text = KubernetesManifest(job);
  EXPECT_THAT(text, HasSubstr("nvidia.com/mig-1g.5gb: 8\n"));
  EXPECT_THAT(text, HasSubstr("- {key: nvidia.com/mig-1g.5gb, operator: Exists"));
  EXPECT_THAT(text, HasSubstr("- {key: nvidia.com/gpu, operator: Exists"))
      << "the taint of their nodes";
  EXPECT_THAT(text, Not(HasSubstr("DDPRUN_NPROC_PER_NODE")));
}

TEST(KubernetesManifestTest, SeveralInstancesInAPodAreAWarning) {
  const std::string head =
      "{command: a, kubernetes: {image: a, gpu_resource: nvidia.com/mig-1g.5gb";
  EXPECT_EQ(ProblemsOf(head + ", gpus_per_node: 1}}"), "");
  EXPECT_THAT(ProblemsOf(head + ", gpus_per_node: 2}}"),
              HasSubstr("CUDA shows a process one MIG instance alone"));
}

TEST(KubernetesManifestTest, CheckpointsInNoVolumeAreAWarning) {
  EXPECT_THAT(ProblemsOf("{command: a, checkpoint_dir: /c, kubernetes: {image: a}}"),
              HasSubstr("warning: "));
  EXPECT_EQ(ProblemsOf("{command: a, checkpoint_dir: /c, kubernetes: {image: a, volume_claim: "
                       "c}}"),
            "");
  EXPECT_THAT(ProblemsOf("{command: a, kubernetes: {image: a, volume_path: /c}}"),
              HasSubstr("kubernetes.volume_path: expected together with"));
}

TEST(KubernetesManifestTest, KeysAreCheckedLikeAllOthers) {
  const std::string error = ProblemsOf("command: a\nkubernetes: {grace: 0, gpu: 1}\n");
  EXPECT_THAT(error, HasSubstr(":2:21: kubernetes.grace: expected a duration"));
  EXPECT_THAT(error, HasSubstr(":2:24: kubernetes.gpu: expected one of "));
}

TEST(KubernetesManifestTest, NamesOfFilesBecomeNamesOfObjects) {
  EXPECT_EQ(KubernetesName("My_job.v2"), "my-job-v2");
  EXPECT_EQ(KubernetesName("train"), "train");
}

TEST(KubernetesManifestTest, CommandLineHasOneFile) {
  const auto command = ParseAs<KubernetesCommand>({"kubernetes", "job.yaml", "--jobset"});
  EXPECT_EQ(command.path, "job.yaml");
  EXPECT_TRUE(command.jobset);
  EXPECT_FALSE(ParseAs<KubernetesCommand>({"kubernetes", "job.yaml"}).jobset);
  EXPECT_THAT(ErrorOf({"kubernetes"}), HasSubstr("kubernetes: expected one job file (found 0)"));
}

TEST(YamlTextTest, WhatCouldBeTakenForSomethingElseIsInQuotes) {
  for (const char* const plain : {"train", "a/b:1", "/etc/x", "nvidia.com/gpu"}) {
    EXPECT_EQ(YamlWord(plain), plain);
  }
  for (const char* const other : {"", "8", "on", "Yes", "null", "a b", "a:", "- x", "#", "1e3"}) {
    EXPECT_EQ(YamlWord(other), "\"" + std::string(other) + "\"");
  }
  EXPECT_EQ(YamlWord("a\"\\\n\x01"), R"("a\"\\\n\x01")");
}

TEST(YamlTextTest, BlocksKeepEveryLineBreak) {
  EXPECT_EQ(YamlBlock("a\n\n b\n", 2), "|2\n    a\n\n     b\n");
  EXPECT_EQ(YamlBlock("  a", 0), "|2-\n    a\n");
  EXPECT_EQ(YamlBlock("a\n\n\n", 0), "|2+\n  a\n\n\n");
  EXPECT_EQ(YamlBlock("\xef\xbb\xbf"
                      "a\n",
                      0),
            "|2\n  a\n");
  EXPECT_EQ(YamlBlock("\na", 0), "\"\\na\"\n");
  EXPECT_EQ(YamlBlock("a\r\n", 0), "\"a\\x0d\\n\"\n");
  EXPECT_EQ(YamlBlock("", 0), "\"\"\n");
}

}  // namespace kubernetes_manifest_test
}  // namespace ddprun
