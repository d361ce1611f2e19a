// A Host whose answers the test sets.
#ifndef DDPRUN_TESTS_UNIT_CONFIG_FAKE_HOST_H_
#define DDPRUN_TESTS_UNIT_CONFIG_FAKE_HOST_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config/host.h"

namespace ddprun {

struct FakeHost : Host {
  std::map<std::string, std::string> variables;
  int cpus = 6;
  std::vector<Cpu> places;     // the CPUs; only for --numa-binding
  int gpu_devices = 0;         // GPUs without any details
  std::vector<int> gpu_nodes;  // one more GPU on each of these NUMA nodes
  int instances = 0;           // > 0: one more GPU, divided into that many instances (MIG)
  bool other_gpus = false;     // MayHaveOtherGpus()
  std::string directory = "/home/user";
  std::string name = "n1";
  std::string hosts_file;

  std::optional<std::string> Environment(const std::string& name) const override {
    const auto it = variables.find(name);
    if (it == variables.end()) return std::nullopt;
    return it->second;
  }
  int CpuCount() const override { return cpus; }
  std::vector<Cpu> Cpus() const override { return places; }
  std::vector<Gpu> Gpus() const override {
    std::vector<Gpu> gpus(gpu_devices);
    for (const int node : gpu_nodes) gpus.push_back({"", false, 0, "", node});
    if (instances > 0) gpus.push_back({"", true, instances});
    return gpus;
  }
  bool MayHaveOtherGpus() const override { return other_gpus; }
  std::string CurrentDirectory() const override { return directory; }
  std::string Name() const override { return name; }
  std::string HostsFile() const override { return hosts_file; }
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_CONFIG_FAKE_HOST_H_
