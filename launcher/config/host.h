// Host: what the configuration reads from the machine. An interface, so that tests give the same
// results on every machine. Read-only. Any thread, as long as no thread changes the environment.
#ifndef DDPRUN_LAUNCHER_CONFIG_HOST_H_
#define DDPRUN_LAUNCHER_CONFIG_HOST_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config/machine/cpus.h"
#include "launcher/config/machine/gpus.h"

namespace ddprun {

class Host {
 public:
  virtual ~Host() = default;

  // The environment variable `name`; nullopt: not set; "": set to an empty value.
  virtual std::optional<std::string> Environment(const std::string& name) const = 0;

  // Number of CPUs in this process's affinity mask, at least 1.
  virtual int CpuCount() const = 0;

  // The same CPUs with their places in the machine; empty: the kernel does not report them.
  virtual std::vector<Cpu> Cpus() const = 0;

  // GPUs that this process is allowed to open.
  virtual std::vector<Gpu> Gpus() const = 0;

  // Whether there may be GPUs that Gpus() cannot list, because their driver is not NVIDIA's driver
  // for PCI: AMD's, WSL's or Tegra's.
  virtual bool MayHaveOtherGpus() const = 0;

  // The current directory, absolute: relative paths start from it.
  virtual std::string CurrentDirectory() const = 0;

  // This host's name, as `hostname` prints it.
  virtual std::string Name() const = 0;

  // The text of /etc/hosts; "": unreadable.
  virtual std::string HostsFile() const = 0;
};

class PosixHost : public Host {
 public:
  std::optional<std::string> Environment(const std::string& name) const override;
  int CpuCount() const override;
  std::vector<Cpu> Cpus() const override;
  std::vector<Gpu> Gpus() const override;
  bool MayHaveOtherGpus() const override;
  std::string CurrentDirectory() const override;
  std::string Name() const override;
  std::string HostsFile() const override;
};

// The GPUs that a worker of this process would see: CountVisible() of the host's GPUs and
// CUDA_VISIBLE_DEVICES. If this process may open no GPU, and MayHaveOtherGpus() is false: none,
// whatever the variable names.
VisibleGpus VisibleGpusOf(const Host& host);

// The CUDA_VISIBLE_DEVICES of the workers. `env`: the job's variables for its workers.
std::optional<std::string> DevicesOfWorkers(const std::map<std::string, std::string>& env,
                                            const Host& host);
// As VisibleGpusOf(host), with DevicesOfWorkers().
VisibleGpus GpusOfWorkers(const std::map<std::string, std::string>& env, const Host& host);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_HOST_H_
