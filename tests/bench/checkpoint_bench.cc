// What a checkpoint costs: how long save() holds training up, against one memcpy of the same bytes,
// and how fast the file gets to disk behind its back, against a plain sequential write with fsync
// of the same bytes. The two sides of each comparison alternate in one run. A job of one process.
//
//   checkpoint_bench [--folder /var/tmp] [--mib 1024] [--rounds 3]
//
// Prints medians and PASS or FAIL for each bound. Exits 1 if one is not met.
#include <ddp/ddp.h>
#include <fcntl.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr double kMostStall = 1.3;   // × one memcpy
constexpr double kLeastWrite = 0.7;  // of a plain write
constexpr std::int64_t kTensors = 64;
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;  // as `dd bs=1M`

struct Flags {
  std::string folder = "/var/tmp";
  std::int64_t mib = 1024;
  int rounds = 3;
};

Flags Parse(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--folder") flags.folder = argv[i + 1];
    if (name == "--mib") flags.mib = std::atoll(argv[i + 1]);
    if (name == "--rounds") flags.rounds = std::atoi(argv[i + 1]);
  }
  return flags;
}

double Ms(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A folder of our own, removed with all that is in it.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& parent) : path_(parent + "/checkpoint_bench-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  ~WorkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Net : torch::nn::Module {
  explicit Net(std::int64_t mib) {
    const std::int64_t numbers = (mib << 20) / 4 / kTensors;
    for (std::int64_t i = 0; i < kTensors; ++i) {
      std::string name = "p";
      name += std::to_string(i);
      register_parameter(name, torch::rand({numbers}));
    }
  }
};

// A line "Vm...: 1234 kB" of /proc/self/status, in MiB.
double StatusMib(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stod(line.substr(key.size() + 1)) / 1024;
  }
  return 0;
}

void WritePlainly(const std::string& path, const char* data, std::size_t size) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) throw std::runtime_error("cannot open " + path);
  for (std::size_t at = 0; at < size; at += kWriteBytes) {
    const std::size_t part = std::min(kWriteBytes, size - at);
    if (write(fd, data + at, part) != static_cast<ssize_t>(part)) {
      throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
    }
  }
  if (fsync(fd) != 0) throw std::runtime_error("cannot sync " + path);
  close(fd);
  unlink(path.c_str());
}

bool all_good = true;

void Judge(const std::string& what, double value, const char* sign, double bound) {
  const bool good = *sign == '<' ? value <= bound : value >= bound;
  all_good = all_good && good;
  std::printf("    %-52s %6.2f  %s %-5.2f %s\n", what.c_str(), value, sign, bound,
              good ? "PASS" : "FAIL");
}

void MeasureSave(const ddp::Context& ctx, const Flags& flags, const std::string& folder) {
  Net net(flags.mib);
  torch::optim::SGD optimizer(net.parameters(), 0.1);
  ddp::CheckpointerOptions options;
  options.keep_last = 1;
  ddp::Checkpointer checkpointer(ctx, folder + "/ckpt", options);
  const auto bytes = static_cast<std::size_t>(flags.mib) << 20;
  const std::size_t part = bytes / kTensors;
  ddp::State state;
  const auto save = [&] {
    ++state.step;
    checkpointer.save(state, net, optimizer);
  };
  const auto flush = [&] {
    const ddp::SaveStatus status = checkpointer.flush();
    if (!status.error.empty()) throw std::runtime_error(status.error);
  };

  const double memory_before = StatusMib("VmRSS");
  std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM starts anew
  const double first = Ms(save);
  flush();
  save();
  flush();
  const double extra = StatusMib("VmHWM") - memory_before;

  const std::unique_ptr<char[]> copy(new char[bytes]);
  std::memset(copy.get(), 1, bytes);  // touched, as the staging buffer is
  std::vector<double> memcpys;
  std::vector<double> stalls;
  std::vector<double> writes;
  std::vector<double> plain_writes;
  for (int round = 0; round < flags.rounds; ++round) {
    plain_writes.push_back(Ms([&] { WritePlainly(folder + "/plain", copy.get(), bytes); }));
    for (int i = 0; i < 3; ++i) {
      memcpys.push_back(Ms([&] {
        std::size_t at = 0;
        for (const torch::Tensor& p : net.parameters()) {
          std::memcpy(copy.get() + at, p.data_ptr(), part);
          at += part;
        }
      }));
    }
    stalls.push_back(Ms(save));
    writes.push_back(Ms(flush));
  }
  const auto rate = [&](double ms) { return static_cast<double>(bytes) / 1e6 / ms; };
  std::printf("state of %lld MiB, medians of %d rounds\n", static_cast<long long>(flags.mib),
              flags.rounds);
  std::printf("    first save, which gets its memory %8.1f ms\n", first);
  std::printf("    stall of save                     %8.1f ms\n", Median(stalls));
  std::printf("    one memcpy                        %8.1f ms\n", Median(memcpys));
  std::printf("    background write, hashes and all  %8.1f ms  %.2f GB/s\n", Median(writes),
              rate(Median(writes)));
  std::printf("    plain write with fsync            %8.1f ms  %.2f GB/s\n", Median(plain_writes),
              rate(Median(plain_writes)));
  std::printf("    peak extra memory                 %8.1f MiB (%.2f × the state)\n", extra,
              extra / static_cast<double>(flags.mib));
  Judge("stall of save, × one memcpy", Median(stalls) / Median(memcpys), "<=", kMostStall);
  Judge("background write, of a plain write's speed", Median(plain_writes) / Median(writes),
        ">=", kLeastWrite);
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::run([&] {
    const Flags flags = Parse(argc, argv);
    torch::set_num_threads(1);
    const ddp::Context ctx = ddp::init();
    const WorkFolder folder(flags.folder);
    MeasureSave(ctx, flags, folder.path());
    return all_good ? 0 : 1;
  });
}
