#include "launcher/config/machine/numa_binding.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "launcher/config/machine/gpus.h"

namespace ddprun {
namespace {

CpuList NumbersOf(const std::vector<Cpu>& cpus) {
  CpuList numbers;
  for (const Cpu& cpu : cpus) numbers.push_back(cpu.number);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<Cpu> OnNode(const std::vector<Cpu>& cpus, int node) {
  std::vector<Cpu> found;
  std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(found),
               [node](const Cpu& cpu) { return cpu.node == node; });
  return found;
}

// All CPUs on the nodes of `node`'s socket. A node's socket is that of its first CPU, as in
// torchrun.
CpuList OfSocket(const std::vector<Cpu>& cpus, int node) {
  std::map<int, int> sockets;  // socket of each node
  for (const Cpu& cpu : cpus) sockets.emplace(cpu.node, cpu.socket);
  std::vector<Cpu> found;
  std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(found),
               [&](const Cpu& cpu) { return sockets[cpu.node] == sockets[node]; });
  return NumbersOf(found);
}

// Groups CPUs by `key`, in the order of its values.
std::vector<CpuList> GroupBy(const std::vector<Cpu>& cpus, int Cpu::*key) {
  std::map<int, std::vector<Cpu>> groups;
  for (const Cpu& cpu : cpus) groups[cpu.*key].push_back(cpu);
  std::vector<CpuList> lists;
  for (const auto& [value, group] : groups) lists.push_back(NumbersOf(group));
  return lists;
}

// The cores of place `index` out of `count` places on a node with these cores.
CpuList ShareOf(const std::vector<CpuList>& cores, std::size_t index, std::size_t count) {
  const std::size_t each = cores.size() / count;
  const std::size_t extra = cores.size() % count;
  const std::size_t first = index * each + std::min(index, extra);
  const std::size_t end = first + each + (index < extra ? 1 : 0);
  CpuList share;
  for (std::size_t core = first; core < end; ++core) {
    share.insert(share.end(), cores[core].begin(), cores[core].end());
  }
  std::sort(share.begin(), share.end());
  return share;
}

CpuList ComplexOf(const std::vector<Cpu>& cpus, std::size_t index) {
  std::vector<CpuList> groups = GroupBy(cpus, &Cpu::cache);
  std::stable_sort(groups.begin(), groups.end(),
                   [](const CpuList& a, const CpuList& b) { return a.size() > b.size(); });
  return groups[index % groups.size()];
}

// NUMA nodes for workers without GPUs: evenly spread, consecutive workers together.
std::vector<int> SpreadOver(const std::vector<Cpu>& cpus, int workers) {
  std::set<int> found;
  for (const Cpu& cpu : cpus) found.insert(cpu.node);
  const std::vector<int> nodes(found.begin(), found.end());
  std::vector<int> spread;
  for (int i = 0; i < workers; ++i) {
    spread.push_back(
        nodes[static_cast<std::size_t>(i) * nodes.size() / static_cast<std::size_t>(workers)]);
  }
  return spread;
}

absl::Status Unable(const std::string& mode, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("--numa-binding ", mode, ": ", why));
}

// The NUMA nodes of the visible GPUs, in CUDA's order; -1: the kernel does not report the node.
absl::StatusOr<std::vector<int>> NodesOfGpus(const std::string& mode, const std::vector<Gpu>& gpus,
                                             const VisibleGpus& visible) {
  std::set<int> all;
  for (const Gpu& gpu : gpus) all.insert(gpu.numa_node);
  std::vector<int> nodes;
  for (const auto& owner : visible.owners) {
    if (!owner && all.size() > 1) {
      return Unable(mode,
                    absl::StrCat("the driver does not report the GPU of entry ", nodes.size() + 1,
                                 " of CUDA_VISIBLE_DEVICES; list GPUs by number"));
    }
    nodes.push_back(owner ? gpus[*owner].numa_node : *all.begin());
  }
  return nodes;
}

// Uses node 0 if the kernel reports none, as torchrun does. If the machine has several nodes this
// may be wrong, so it adds a warning.
void TakeNodeZero(const std::vector<Cpu>& cpus, NumaBinding* binding, std::vector<int>* nodes) {
  const bool is_certain = std::all_of(
      cpus.begin(), cpus.end(), [&](const Cpu& cpu) { return cpu.node == cpus.front().node; });
  for (std::size_t i = 0; i < nodes->size(); ++i) {
    if ((*nodes)[i] >= 0) continue;
    (*nodes)[i] = 0;
    if (is_certain) continue;
    binding->warnings.push_back(absl::StrCat(
        "--numa-binding: the kernel does not tell the NUMA node of GPU ", i, "; 0 is taken"));
  }
}

}  // namespace

absl::StatusOr<std::vector<CpuList>> DivideCpus(const std::string& mode,
                                                const std::vector<Cpu>& cpus,
                                                const std::vector<int>& nodes, int workers) {
  std::map<int, std::size_t> given;  // how many places of each node are served
  std::vector<CpuList> lists;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(workers); ++rank) {
    const int node = nodes[rank];
    const std::vector<Cpu> near = OnNode(cpus, node);
    if (near.empty()) {
      return Unable(mode, absl::StrCat("this process may use no CPU of NUMA node ", node,
                                       ", to which local rank ", rank, " belongs (only ",
                                       FormatCpuList(NumbersOf(cpus)), ")"));
    }
    const std::size_t index = given[node]++;
    if (mode == "node") {
      lists.push_back(NumbersOf(near));
    } else if (mode == "socket") {
      lists.push_back(OfSocket(cpus, node));
    } else if (mode == "core-complex") {
      lists.push_back(ComplexOf(near, index));
    } else {
      const auto count = static_cast<std::size_t>(std::count(nodes.begin(), nodes.end(), node));
      const std::vector<CpuList> cores = GroupBy(near, &Cpu::core);
      if (cores.size() < count) {
        return Unable(mode, absl::StrCat("NUMA node ", node, " has ", cores.size(),
                                         " physical cores that this process may use, and ", count,
                                         " GPUs or workers to share them"));
      }
      lists.push_back(ShareOf(cores, index, count));
    }
  }
  return lists;
}

absl::StatusOr<NumaBinding> BindWorkers(const JobConfig& config, const Host& host) {
  const std::string& mode = config.program.numa_binding;
  NumaBinding binding;
  if (mode == kNoBinding) return binding;
  const std::vector<Cpu> cpus = host.Cpus();
  if (cpus.empty()) return Unable(mode, "the kernel does not tell which CPUs this process may use");
  const std::vector<Gpu> gpus = host.Gpus();
  const VisibleGpus visible = CountVisible(gpus, DevicesOfWorkers(config.env, host));
  const int workers = config.nproc_per_node;
  absl::StatusOr<std::vector<int>> nodes = SpreadOver(cpus, workers);
  if (visible.count > 0 && !gpus.empty()) {
    if (workers > visible.count) {
      return Unable(mode, absl::StrCat("each worker needs a GPU of its own (found ", workers,
                                       " workers and ", visible.count,
                                       " visible GPUs); CUDA_VISIBLE_DEVICES= hides the GPUs, and "
                                       "spreads the workers over the NUMA nodes"));
    }
    nodes = NodesOfGpus(mode, gpus, visible);
    if (!nodes.ok()) return nodes.status();
    TakeNodeZero(cpus, &binding, &*nodes);
  }
  auto lists = DivideCpus(mode, cpus, *nodes, workers);
  if (!lists.ok()) return lists.status();
  binding.cpus = *std::move(lists);
  return binding;
}

}  // namespace ddprun
