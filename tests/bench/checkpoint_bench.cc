// The cost of a checkpoint, in two parts. The two sides of each comparison alternate in one run.
//
// The first part is a job of one process. It measures how long save() stops the training, compared
// with one memcpy of the same bytes (from a GPU: one copy of them to pinned memory). It also
// measures how fast the file is written in the background, compared with a plain sequential write
// with fsync of the same bytes.
//
// The second part has two ranks: first as on one node, then as on two nodes. It measures how long
// load_latest() takes, compared with a broadcast of the same bytes by Gloo. As on two nodes it also
// measures an encrypted restore, as in a job with credentials, compared with a restore without
// encryption. The state lies in /dev/shm, as snapshots do, and the parameters' memory is in use.
//
//   checkpoint_bench [--folder /var/tmp] [--mib 1024] [--rounds 3] [--only save|restore]
//                    [--device cpu|cuda]      of the first part's state; the second is on the CPU
//
// The ranks of the second part are workers of the ddprun beside this program.
// Prints medians, and PASS or FAIL for each bound. Exits 1 if a bound is not met.
#include <ddp/ddp.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <torch/cuda.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>
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

constexpr double kMostStall = 1.3;      // × one memcpy
constexpr double kLeastWrite = 0.7;     // of a plain write
constexpr double kLeastOneNode = 2.0;   // × a broadcast's speed
constexpr double kLeastTwoNodes = 0.8;  // likewise
constexpr double kLeastSealed = 0.75;   // × the speed of the same without encryption
constexpr double kMostExtraMib = 128;   // of memory, beside the state
constexpr std::int64_t kTensors = 64;
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;  // as `dd bs=1M`

struct Flags {
  std::string folder = "/var/tmp";
  std::int64_t mib = 1024;
  int rounds = 3;
  std::string only;  // save | restore; empty: both
  std::string device = "cpu";
  std::string restore;  // of a rank of the second part: one-node | two-nodes
  std::string result;   // the file that gets the ms of its restores
};

Flags Parse(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--folder") flags.folder = argv[i + 1];
    if (name == "--mib") flags.mib = std::atoll(argv[i + 1]);
    if (name == "--rounds") flags.rounds = std::atoi(argv[i + 1]);
    if (name == "--only") flags.only = argv[i + 1];
    if (name == "--device") flags.device = argv[i + 1];
    if (name == "--restore") flags.restore = argv[i + 1];
    if (name == "--result") flags.result = argv[i + 1];
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

void WritePlainly(const std::string& path, const std::uint8_t* data, std::size_t size) {
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
  net.to(ctx.device());
  torch::optim::SGD optimizer(net.parameters(), 0.1);
  ddp::CheckpointerOptions options;
  options.keep_last = 1;
  ddp::Checkpointer checkpointer(ctx, folder + "/ckpt", options);
  const auto bytes = static_cast<std::size_t>(flags.mib) << 20;
  const std::int64_t part = static_cast<std::int64_t>(bytes) / kTensors;
  const bool on_gpu = ctx.device().is_cuda();
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

  // Its pages are touched, like those of the staging buffer.
  const torch::Tensor copy = torch::ones({static_cast<std::int64_t>(bytes)},
                                         torch::dtype(torch::kUInt8).pinned_memory(on_gpu));
  // Like a save: the old file is removed only when the new one is complete.
  const std::string plain = folder + "/plain";
  const auto write_plainly = [&] {
    WritePlainly(plain + ".new", copy.data_ptr<std::uint8_t>(), bytes);
    std::filesystem::rename(plain + ".new", plain);
  };
  std::vector<double> memcpys;
  std::vector<double> stalls;
  std::vector<double> writes;
  std::vector<double> plain_writes;
  for (int round = 0; round < flags.rounds; ++round) {
    for (int i = 0; i < 3; ++i) {
      memcpys.push_back(Ms([&] {
        std::int64_t at = 0;
        for (const torch::Tensor& p : net.parameters()) {
          const torch::Tensor to = copy.narrow(0, at, part);
          if (on_gpu) {
            to.copy_(p.detach().view(torch::kUInt8), /*non_blocking=*/true);
          } else {
            std::memcpy(to.data_ptr(), p.data_ptr(), to.nbytes());
          }
          at += part;
        }
        if (on_gpu) torch::cuda::synchronize(ctx.device().index());
      }));
    }
    stalls.push_back(Ms([&] {
      save();
      // The host does not wait for the end of the copy, but the GPU trains on only after it.
      if (on_gpu) torch::cuda::synchronize(ctx.device().index());
    }));
    flush();
  }
  // Each write comes right after another one. A file is written much faster to memory that was just
  // freed than to memory that the host of a virtual machine has taken back meanwhile.
  for (int round = 0; round < flags.rounds; ++round) {
    save();
    writes.push_back(Ms(flush));
    plain_writes.push_back(Ms(write_plainly));
  }
  const auto rate = [&](double ms) { return static_cast<double>(bytes) / 1e6 / ms; };
  std::printf("state of %lld MiB, medians of %d rounds\n", static_cast<long long>(flags.mib),
              flags.rounds);
  std::printf("    first save, which gets its memory %8.1f ms\n", first);
  std::printf("    stall of save                     %8.1f ms\n", Median(stalls));
  std::printf("    %-33s %8.1f ms\n", on_gpu ? "one copy to pinned memory" : "one memcpy",
              Median(memcpys));
  std::printf("    background write, hashes and all  %8.1f ms  %.2f GB/s\n", Median(writes),
              rate(Median(writes)));
  std::printf("    plain write with fsync            %8.1f ms  %.2f GB/s\n", Median(plain_writes),
              rate(Median(plain_writes)));
  std::printf("    peak extra memory                 %8.1f MiB (%.2f × the state)\n", extra,
              extra / static_cast<double>(flags.mib));
  Judge(on_gpu ? "stall of save, × one copy to pinned memory" : "stall of save, × one memcpy",
        Median(stalls) / Median(memcpys), "<=", kMostStall);
  Judge("background write, of a plain write's speed", Median(plain_writes) / Median(writes),
        ">=", kLeastWrite);
}

constexpr char kFile[] = "step-000000000002.safetensors";

// The least work of a rank that reads the file: it copies the file into memory that is in use.
void CopyFile(const std::string& path, torch::Tensor* to) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const map = mmap(nullptr, to->nbytes(), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (map == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  std::memcpy(to->data_ptr(), map, to->nbytes());
  munmap(map, to->nbytes());
}

// The time of the slower rank.
double TogetherMs(const ddp::Context& ctx, const std::function<void()>& work) {
  ddp::barrier(ctx);
  const double mine = Ms(work);
  double slowest = 0;
  for (const torch::Tensor& one : ddp::all_gather(ctx, torch::full({1}, mine, torch::kFloat64))) {
    slowest = std::max(slowest, one.item<double>());
  }
  return slowest;
}

void MeasureRestore(const ddp::Context& ctx, const Flags& flags, const std::string& folder) {
  Net net(flags.mib);
  torch::optim::SGD optimizer(net.parameters(), 0.1);
  ddp::Checkpointer checkpointer(ctx, folder);
  ddp::State state;
  for (state.step = 1; state.step <= 2; ++state.step) {  // with an older one, as usual
    checkpointer.save(state, net, optimizer);
    checkpointer.flush();
  }
  torch::Tensor wire = torch::ones({flags.mib << 20}, torch::kUInt8);
  const auto restore = [&] {
    if (!checkpointer.load_latest(net, optimizer)) throw std::runtime_error("nothing to load");
  };
  restore();
  std::vector<double> restores;
  std::vector<double> broadcasts;
  std::vector<double> copies;
  double extra = 0;
  for (int round = 0; round < flags.rounds; ++round) {
    broadcasts.push_back(TogetherMs(ctx, [&] { ddp::broadcast(ctx, wire); }));
    copies.push_back(TogetherMs(ctx, [&] { CopyFile(folder + "/" + kFile, &wire); }));
    std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM starts anew
    const double before = StatusMib("VmRSS");
    restores.push_back(TogetherMs(ctx, restore));
    extra = std::max(extra, StatusMib("VmHWM") - before);
  }
  // A rank that reads the file has mapped it. All ranks share these pages: no extra memory.
  const bool one_node = flags.restore == "one-node";
  const bool reads_file = one_node || ctx.rank() == 0;
  if (reads_file) extra -= static_cast<double>(flags.mib);
  for (const torch::Tensor& one : ddp::all_gather(ctx, torch::full({1}, extra, torch::kFloat64))) {
    extra = std::max(extra, one.item<double>());
  }
  if (ctx.rank() != 0) return;
  if (!flags.result.empty()) std::ofstream(flags.result) << Median(restores);
  const double ratio = Median(broadcasts) / Median(restores);
  std::printf("restore of %lld MiB to 2 ranks of %s\n", static_cast<long long>(flags.mib),
              one_node ? "one node" : "two nodes");
  std::printf("    load_latest, checked              %8.1f ms\n", Median(restores));
  std::printf("    one memcpy of it on each rank     %8.1f ms\n", Median(copies));
  std::printf("    broadcast by Gloo                 %8.1f ms\n", Median(broadcasts));
  Judge("restore, × a broadcast's speed", ratio, ">=", one_node ? kLeastOneNode : kLeastTwoNodes);
  Judge("peak extra memory of a rank, MiB", extra, "<=", kMostExtraMib);
}

// A rank that says it is alone on its node.
void PretendTwoNodes() {
  setenv("LOCAL_RANK", "0", 1);
  setenv("LOCAL_WORLD_SIZE", "1", 1);
}

// Measures a job under the ddprun beside this program, with these flags; adds its times to `times`.
int RunRestore(const Flags& flags, const std::string& program, const std::string& nodes,
               const std::string& ddprun_flags, std::vector<double>* times) {
  const std::string ddprun = std::filesystem::path(program).parent_path() / "ddprun";
  const WorkFolder folder("/dev/shm");
  const std::string result = folder.path() + "/result";
  const std::string command = ddprun + " --quiet --nproc-per-node 2 --log-dir " + folder.path() +
                              "/logs " + ddprun_flags + " -- " + program + " --restore " + nodes +
                              " --folder " + folder.path() + "/state --mib " +
                              std::to_string(flags.mib) + " --rounds " +
                              std::to_string(flags.rounds) + " --result " + result;
  std::fflush(stdout);
  const int code = std::system(command.c_str()) == 0 ? 0 : 1;
  double ms = 0;
  std::ifstream(result) >> ms;
  times->push_back(ms);
  return code;
}

int RunRestores(const Flags& flags, const std::string& program) {
  std::vector<double> unused;
  int worst = RunRestore(flags, program, "one-node", "", &unused);
  const WorkFolder folder("/dev/shm");
  const std::string token = folder.path() + "/token";
  std::ofstream(token) << "a token of this benchmark\n";
  std::filesystem::permissions(token, std::filesystem::perms(0600));
  const std::string credentials =
      "--rdzv-backend c10d --rdzv-endpoint 127.0.0.1:29655 --token-file " + token;
  std::vector<double> open;
  std::vector<double> sealed;
  for (int round = 0; round < flags.rounds; ++round) {
    worst = std::max(worst, RunRestore(flags, program, "two-nodes", "", &open));
    std::printf("the same, encrypted\n");
    worst = std::max(worst, RunRestore(flags, program, "two-nodes", credentials, &sealed));
  }
  Judge("encrypted, × the speed of the same without", Median(open) / Median(sealed),
        ">=", kLeastSealed);
  return all_good ? worst : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Flags flags = Parse(argc, argv);
  torch::set_num_threads(1);
  int code = 0;
  if (flags.restore.empty() && flags.only != "restore") {
    code = ddp::run([&] {
      ddp::Options options;
      options.backend = flags.device == "cuda" ? "auto" : "gloo";
      options.device = flags.device;
      const ddp::Context ctx = ddp::init(options);
      const WorkFolder folder(flags.folder);
      MeasureSave(ctx, flags, folder.path());
      return all_good ? 0 : 1;
    });
  }
  if (flags.restore.empty() && flags.only != "save") {
    return std::max(code, RunRestores(flags, std::filesystem::canonical("/proc/self/exe")));
  }
  if (flags.restore.empty()) return code;
  if (flags.restore == "two-nodes") PretendTwoNodes();
  return ddp::run([&] {
    ddp::Options options;
    options.backend = "gloo";
    const ddp::Context ctx = ddp::init(options);
    MeasureRestore(ctx, flags, flags.folder);
    return all_good ? 0 : 1;
  });
}
