// The worker of tests/chaos/campaign.py. It counts steps together with all other ranks, saves the
// number of the step as its state, and records the data for the verdict. It has no libtorch, so it
// starts within milliseconds.
//
//     campaign_worker FOLDER [snapshots] [forgets]
//     campaign_worker FOLDER twin     only the stamps (a plant: an error that a verdict must find)
//
// FOLDER/HOST.gGENERATION.rRANK.PID gets lines, each with a time of CLOCK_MONOTONIC in ns:
//     alive NS             every 10 ms, by a thread of its own, from the start of main() on
//     begin NS STEP        all ranks are connected; training continues after this step
//     restarts NS COUNT    of the job, from the agent's variables
//     durable NS STEP      rank 0: the checkpoint is on disk, and the agent was told
//     error NS TEXT        a rule is violated; the process ends
// Training ends with exit code 0 once there is a file FOLDER.go.
//
// All ranks meet in one barrier per step, over TCP at MASTER_ADDR:MASTER_PORT. About every 10 steps
// a thread of rank 0 saves a checkpoint in DDPRUN_CHECKPOINT_DIR, a folder that all nodes share.
// With `snapshots` each node's local rank 0 writes a snapshot to DDPRUN_SNAPSHOT_DIR every 5 steps.
// The worker obeys the restore plan, and checks that the plan's source has the state. With
// `forgets` (a plant) it continues from half the step.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker/contract/checkpoint_file.h"
#include "worker/contract/control.h"
#include "worker/contract/environment.h"

namespace {

namespace env = ddprun::env;
namespace control = ddprun::control;
namespace checkpoint_file = ddprun::checkpoint_file;

constexpr std::int64_t kSaveEvery = 10;
constexpr std::int64_t kSnapshotEvery = 5;
constexpr std::int64_t kEnd = -1;      // rank 0's answer in a barrier: no more steps
constexpr std::int64_t kUnknown = -2;  // the step to continue from, if there is no plan
constexpr useconds_t kStepUs = 20'000;

std::string Get(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}
std::int64_t Number(const char* name) { return std::atoll(Get(name).c_str()); }

// ---- what this process records; any thread ----

int stamps = -1;  // one write(2) per line, so that a line is whole even if the process is killed

void WriteDown(const std::string& what, const std::string& value) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::string line = what + " " + std::to_string(now.tv_sec * 1'000'000'000LL + now.tv_nsec) +
                           (value.empty() ? "" : " " + value) + "\n";
  if (write(stamps, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(74);
}

[[noreturn]] void Stamp() {
  for (;;) {
    WriteDown("alive", "");
    usleep(10'000);
  }
}

[[noreturn]] void Error(const std::string& text) {
  WriteDown("error", text);
  std::fprintf(stderr, "%s\n", text.c_str());
  _exit(3);
}

// ---- messages to the agent; any thread ----

void Tell(const std::string& message) {
  static const int agent = [] {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, Get(env::kControlSocket).c_str(), sizeof address.sun_path - 1);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) _exit(71);
    return fd;
  }();
  send(agent, message.data(), message.size(), MSG_NOSIGNAL);
}
void Tell(const char* key, const std::string& value) { Tell(std::string(key) + "=" + value); }

// ---- the group ----

[[noreturn]] void CollectiveFailed() {
  const int error = errno;
  Tell(control::kError, std::string(control::kErrorCollective) + " a peer is gone");
  std::fprintf(stderr, "barrier: connection to a peer is broken: %s\n", std::strerror(error));
  _exit(1);
}

void Send(int fd, std::int64_t value) {
  if (send(fd, &value, sizeof value, MSG_NOSIGNAL) != sizeof value) CollectiveFailed();
}
std::int64_t Receive(int fd) {
  std::int64_t value = 0;
  if (recv(fd, &value, sizeof value, MSG_WAITALL) != sizeof value) CollectiveFailed();
  return value;
}

// Rank 0 is connected to every other rank. Each other rank is connected to rank 0 alone.
std::vector<int> Connect(std::int64_t rank, std::int64_t world_size) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(Number(env::kMasterPort)));
  const int on = 1;
  std::vector<int> peers;
  if (rank == 0) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener, 128) != 0) {
      Tell(control::kError, std::string(control::kErrorBind) + " MASTER_PORT");
      _exit(1);
    }
    while (static_cast<std::int64_t>(peers.size()) < world_size - 1) {
      peers.push_back(accept(listener, nullptr, nullptr));
    }
  } else {
    inet_pton(AF_INET, Get(env::kMasterAddr).c_str(), &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      close(fd);
      usleep(1000);  // rank 0 does not listen yet
      fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    peers.push_back(fd);
  }
  for (const int fd : peers) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return peers;
}

// Every rank sends `mine`, which must be the same on all ranks. All ranks get rank 0's `answer`.
std::int64_t Barrier(std::int64_t rank, const std::vector<int>& peers, std::int64_t mine,
                     std::int64_t answer) {
  if (rank != 0) {
    Send(peers[0], mine);
    return Receive(peers[0]);
  }
  for (const int peer : peers) {
    const std::int64_t theirs = Receive(peer);
    if (theirs != mine) {
      Error("rank 0 is at step " + std::to_string(mine) + ", another one at " +
            std::to_string(theirs));
    }
  }
  for (const int peer : peers) Send(peer, answer);
  return answer;
}

// ---- states ----

// A safetensors file that the agent accepts. Its only tensor has one byte.
std::string FileContent() {
  const std::string header = std::string("{\"__metadata__\":{\"") + checkpoint_file::kJob +
                             "\":\"" + Get(env::kRunId) + "\",\"" + checkpoint_file::kEpoch +
                             "\":\"" + Get(env::kEpoch) + "\",\"" + checkpoint_file::kGeneration +
                             "\":\"" + Get(env::kGeneration) +
                             "\"},\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
  const std::uint64_t size = header.size();  // little-endian, like this machine
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + "w";
}

std::string CheckpointPath(std::int64_t step) {
  char name[64];
  std::snprintf(name, sizeof name, "/%s%012lld%s", checkpoint_file::kPrefix,
                static_cast<long long>(step), checkpoint_file::kSuffix);
  return Get(env::kCheckpointDir) + name;
}
std::string SlotPath(std::int64_t generation, std::int64_t step) {
  return Get(env::kSnapshotDir) + "/slot-" + std::to_string(generation) + "-" +
         std::to_string(step);
}

// Returns "" or what failed. Replaces a file of that name from an earlier generation. If the
// process is killed here while the disk is frozen, link(2) continues after the thaw, so the file
// gets its name only if the name is still free.
std::string Publish(const std::string& path, const std::string& content) {
  const std::string temporary = path + "." + std::to_string(getpid());
  const auto failed = [&](const char* what) {
    const std::string text = std::string(what) + ": " + std::strerror(errno);
    unlink(temporary.c_str());
    return text;
  };
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return failed("open");
  const bool written =
      write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size()) &&
      fsync(file) == 0;
  if (close(file) != 0 || !written) return failed("write");
  if (link(temporary.c_str(), path.c_str()) == 0) {
    unlink(temporary.c_str());
  } else if (errno != EEXIST || rename(temporary.c_str(), path.c_str()) != 0) {
    return failed("link");
  }
  const int folder = open(Get(env::kCheckpointDir).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = folder >= 0 && fsync(folder) == 0;
  if (folder >= 0) close(folder);
  return synced ? "" : failed("fsync of the folder");
}

// Rank 0's thread for checkpoints. It writes one at a time, and steps do not wait for it.
class Saver {
 public:
  Saver() {
    std::thread([this] { Run(); }).detach();
  }
  // Does nothing while an earlier checkpoint is being written.
  void Save(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    if (!busy_) wanted_ = step;
    wakeup_.notify_one();
  }

 private:
  [[noreturn]] void Run() {
    for (int failures = 0;;) {
      std::unique_lock lock(mutex_);
      busy_ = false;
      wakeup_.wait(lock, [this] { return wanted_.has_value(); });
      const std::int64_t step = *std::exchange(wanted_, std::nullopt);
      busy_ = true;
      lock.unlock();
      const std::string number = std::to_string(step);
      const std::string why = Publish(CheckpointPath(step), FileContent());
      if (why.empty()) {
        Tell(control::kCheckpoint, number + " " + CheckpointPath(step));
        WriteDown("durable", number);
      } else {
        Tell(control::kCheckpointFailed, number + " " + std::to_string(++failures) + " " + why);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable wakeup_;
  std::optional<std::int64_t> wanted_;  // under the mutex
  bool busy_ = false;                   // under the mutex
};

// The states of local rank 0 in memory. It keeps the newest two, because the agent relies on the
// last reported one.
void Snapshot(std::int64_t step) {
  static std::vector<std::string> slots;
  const std::string path = SlotPath(Number(env::kGeneration), step);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || write(file, "state", 5) != 5 || close(file) != 0) return;
  Tell(control::kSnapshot, std::to_string(step));
  slots.push_back(path);
  if (slots.size() <= 2) return;
  unlink(slots.front().c_str());
  slots.erase(slots.begin());
}

std::int64_t NewestCheckpoint() {
  std::int64_t newest = 0;
  DIR* const folder = opendir(Get(env::kCheckpointDir).c_str());
  if (folder == nullptr) return newest;
  while (const dirent* const entry = readdir(folder)) {
    long long step = 0;
    if (std::sscanf(entry->d_name, "step-%lld", &step) == 1 &&
        access(CheckpointPath(step).c_str(), F_OK) == 0) {
      newest = std::max<std::int64_t>(newest, step);
    }
  }
  closedir(folder);
  return newest;
}

// The step of the restore plan; kUnknown if there is no plan.
std::int64_t PlannedStep(std::int64_t rank) {
  const std::string tier = Get(env::kRestoreTier);
  if (tier.empty()) return kUnknown;
  const std::int64_t step = Number(env::kRestoreStep);
  if (tier != env::kTierNone && rank == Number(env::kRestoreRank)) {
    const std::string path = tier == env::kTierMemory
                                 ? SlotPath(Number(env::kRestoreGeneration), step)
                                 : CheckpointPath(step);
    if (access(path.c_str(), F_OK) != 0) {
      Error("rank " + std::to_string(rank) + " has no " + path + ", and the plan says it has");
    }
  }
  return step;
}

struct Options {
  std::string folder;
  bool snapshots = false;
  bool forgets = false;
};

// Ends the process when the campaign says so.
[[noreturn]] void Train(const Options& options) {
  const std::int64_t rank = Number(env::kRank);
  const std::int64_t planned = PlannedStep(rank);
  const std::vector<int> peers = Connect(rank, Number(env::kWorldSize));
  std::int64_t step = planned;
  if (planned == kUnknown) {
    step = Barrier(rank, peers, planned, rank == 0 ? NewestCheckpoint() : kUnknown);
  } else {
    Barrier(rank, peers, planned, planned);
  }
  if (options.forgets) step /= 2;
  WriteDown("begin", std::to_string(step));
  Tell(control::kReady, "1");
  std::optional<Saver> saver;
  if (rank == 0) saver.emplace();
  const std::string end = options.folder + ".go";
  const bool snapshots = options.snapshots && Number(env::kLocalRank) == 0;
  for (;;) {
    usleep(kStepUs);
    const bool over = rank == 0 && access(end.c_str(), F_OK) == 0;
    if (Barrier(rank, peers, step, over ? kEnd : step + 1) == kEnd) _exit(0);  // with all threads
    ++step;
    Tell(control::kStep, std::to_string(step));
    std::printf("step %lld\n", static_cast<long long>(step));
    std::fflush(stdout);
    if (saver && step % kSaveEvery == 0) saver->Save(step);
    if (snapshots && step % kSnapshotEvery == 0) Snapshot(step);
  }
}

}  // namespace

int main(int argc, char** argv) {
  char host[64] = "";
  if (argc < 2 || gethostname(host, sizeof host) != 0) return 64;
  Options options{argv[1]};
  bool twin = false;
  for (int i = 2; i < argc; ++i) {
    options.snapshots |= argv[i] == std::string("snapshots");
    options.forgets |= argv[i] == std::string("forgets");
    twin |= argv[i] == std::string("twin");
  }
  const std::string path = options.folder + "/" + host + ".g" + Get(env::kGeneration) + ".r" +
                           Get(env::kRank) + "." + std::to_string(getpid());
  stamps = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (stamps < 0) return 73;
  WriteDown("alive", "");
  if (twin) Stamp();
  WriteDown("restarts", Get(env::kRestartCount));
  std::thread(Stamp).detach();
  Train(options);
}
