#include "launcher/os/control_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/os/file_util.h"
#include "launcher/os/process/posix_process_runner.h"
#include "tests/unit/launcher/os/test_support.h"
#include "worker/contract/control.h"

namespace ddprun {
namespace control_socket_test {

using test::Child;
using test::RunUntil;
using test::RunUntilDead;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// A message as a short text, to compare with.
std::string Show(const ControlMessage& message) {
  struct Visitor {
    std::string operator()(const ReadyMsg&) const { return "ready"; }
    std::string operator()(const StepMsg& m) const { return "step " + std::to_string(m.step); }
    std::string operator()(const CheckpointMsg& m) const {
      return "checkpoint " + std::to_string(m.step) + " " + m.path;
    }
    std::string operator()(const CheckpointFailedMsg& m) const {
      return "checkpoint failed " + std::to_string(m.step) + " " + m.reason;
    }
    std::string operator()(const CheckpointDamagedMsg& m) const {
      return "checkpoint damaged " + std::to_string(m.step) + " " + m.text;
    }
    std::string operator()(const SecretMsg&) const { return "secret"; }
    std::string operator()(const ProgressMsg&) const { return "progress"; }
    std::string operator()(const SnapshotMsg& m) const {
      return "snapshot " + std::to_string(m.step);
    }
    std::string operator()(const SnapshotFailedMsg& m) const {
      return "snapshot failed " + m.reason;
    }
    std::string operator()(const SavedMsg& m) const { return "saved " + std::to_string(m.time); }
    std::string operator()(const PhaseMsg& m) const { return "phase " + m.name; }
    std::string operator()(const TellsMsg& m) const { return m.tells ? "tells" : "tells not"; }
    std::string operator()(const SavesMsg& m) const { return m.saves ? "saves" : "saves not"; }
    std::string operator()(const StragglerMsg& m) const {
      return "straggler " + std::to_string(m.rank);
    }
    std::string operator()(const ComparesMsg&) const { return "compares"; }
    std::string operator()(const ErrorMsg& m) const { return "error " + m.kind + " " + m.text; }
    std::string operator()(const ByeMsg&) const { return "bye"; }
    std::string operator()(const StaysMsg&) const { return "stays"; }
    std::string operator()(const StoreElsewhereMsg& m) const { return "store at " + m.where; }
    std::string operator()(const StandbyMsg& m) const { return m.waiting ? "waiting" : "able"; }
    std::string operator()(const ForkServerMsg& m) const { return "fork server " + m.unfit; }
    std::string operator()(const ForkedMsg& m) const {
      return "forked " + std::to_string(m.number);
    }
  };
  return std::visit(Visitor(), message);
}

class ControlSocketTest : public ::testing::Test {
 protected:
  ControlSocketTest() {
    auto socket = ControlSocket::Listen(
        &loop_, dir_.path(),
        [this](const ControlPeer& peer, const ControlMessage& m) {
          messages_.emplace_back(peer.worker, Show(m));
          speakers_.push_back(peer.process);
        },
        [this](pid_t peer, const std::string& reason) { errors_.emplace_back(peer, reason); },
        [this](pid_t pid) { return workers_.contains(pid); });
    EXPECT_TRUE(socket.ok()) << socket.status();
    socket_ = *std::move(socket);
  }

  SpawnedProcess Start(SpawnRequest request) {
    request.env.push_back("DDPRUN_CONTROL_SOCKET=" + socket_->path());
    absl::StatusOr<SpawnedProcess> process = runner_.Spawn(request);
    EXPECT_TRUE(process.ok()) << process.status();
    workers_.insert(process->pid);
    return *std::move(process);
  }

  UniqueFd Connect() {
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket_->path().c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0)
        << std::strerror(errno);
    return fd;
  }

  static void Send(const UniqueFd& fd, const std::string& packet) {
    EXPECT_EQ(::send(fd.get(), packet.data(), packet.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(packet.size()));
  }

  // The worker that this process counts as when it connects: the leader of its process group, which
  // may be the shell that started it. getpgid() is 0 if the leader is in another PID namespace.
  const pid_t self_ = ::getpgid(0) > 0 ? ::getpgid(0) : ::getpid();
  const test::TempDir dir_;
  EventLoop loop_;
  PosixProcessRunner runner_;
  std::set<pid_t> workers_;
  std::vector<std::pair<pid_t, std::string>> messages_;
  std::vector<ProcessId> speakers_;  // the sender of each message
  std::vector<std::pair<pid_t, std::string>> errors_;
  std::unique_ptr<ControlSocket> socket_;
};

TEST_F(ControlSocketTest, HearsARealWorkerAndKnowsItsPid) {
  const SpawnedProcess worker =
      Start(Child({"control", "READY=1", "PHASE=train\nSTEP=1", "CHECKPOINT=1 /ck/1", "BYE=1"}));
  const pid_t pid = worker.pid;
  ASSERT_TRUE(RunUntil(&loop_, [&] { return messages_.size() == 5; }));
  EXPECT_THAT(messages_,
              ElementsAre(Pair(pid, "ready"), Pair(pid, "phase train"), Pair(pid, "step 1"),
                          Pair(pid, "checkpoint 1 /ck/1"), Pair(pid, "bye")));
  ASSERT_TRUE(RunUntil(&loop_, [&] { return socket_->connections() == 0; }));
  ASSERT_TRUE(RunUntilDead(&loop_, worker.pidfd.get()));
  EXPECT_EQ(*runner_.Reap(worker.pidfd.get()), ExitStatus());
  EXPECT_TRUE(errors_.empty());
}

// The loop has not run since the worker connected: all messages are still in the kernel.
TEST_F(ControlSocketTest, ReadToEndHearsTheLastWordsOfADeadWorker) {
  const SpawnedProcess worker =
      Start(Child({"control", "STEP=41", "STEP=42", "ERROR=collective connection closed"}));
  EventLoop other;  // waits without giving the control socket a turn
  ASSERT_TRUE(RunUntilDead(&other, worker.pidfd.get()));
  EXPECT_TRUE(messages_.empty());
  socket_->ReadToEnd(worker.pid);
  EXPECT_THAT(messages_, ElementsAre(Pair(worker.pid, "step 41"), Pair(worker.pid, "step 42"),
                                     Pair(worker.pid, "error collective connection closed")));
  EXPECT_EQ(socket_->connections(), 0u);
  EXPECT_TRUE(runner_.Reap(worker.pidfd.get()).ok());
}

TEST_F(ControlSocketTest, AWorkerThatHasConnectedCanBeToldSomething) {
  EXPECT_EQ(socket_->SendTo(self_, control::kSave, "1"), 0) << "nobody is connected";
  const UniqueFd mine = Connect();
  const UniqueFd also_mine = Connect();
  Send(mine, "STEP=1");
  ASSERT_TRUE(RunUntil(&loop_, [&] { return socket_->connections() == 2; }));
  EXPECT_EQ(socket_->SendTo(self_ + 1, control::kSave, "1"), 0) << "of another worker";
  EXPECT_EQ(socket_->SendTo(self_, control::kSave, "1"), 2);
  for (const UniqueFd* fd : {&mine, &also_mine}) {
    char packet[64] = {};
    EXPECT_EQ(::recv(fd->get(), packet, sizeof(packet), 0), 6);
    EXPECT_STREQ(packet, "SAVE=1");
  }
}

// If a worker ends with unread messages, the agent's next read first gets an error, and then the
// worker's last messages. Seen red where the error counted as the end: the last messages were lost.
TEST_F(ControlSocketTest, WhoEndsWithoutReadingIsHeardToTheEnd) {
  UniqueFd mine = Connect();
  socket_->ReadToEnd(self_);
  ASSERT_EQ(socket_->SendTo(self_, control::kSave, "1"), 1);
  Send(mine, "STEP=1");
  Send(mine, "STEP=2");
  mine.reset();
  socket_->ReadToEnd(self_);
  EXPECT_THAT(messages_, ElementsAre(Pair(self_, "step 1"), Pair(self_, "step 2")));
  EXPECT_EQ(socket_->connections(), 0u);
  EXPECT_TRUE(errors_.empty());
}

TEST_F(ControlSocketTest, DescriptorsGoWithAMessage) {
  const UniqueFd mine = Connect();
  ASSERT_TRUE(RunUntil(&loop_, [&] { return socket_->connections() == 1; }));
  const auto file = MemoryFile("A=b");
  ASSERT_TRUE(file.ok()) << file.status();
  const int descriptors[] = {file->get(), file->get()};
  EXPECT_EQ(socket_->SendTo(self_, control::kGo, "1", descriptors), 1);
  char packet[64] = {};
  iovec data{packet, sizeof(packet)};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int) * control::kGoDescriptors)];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = ancillary;
  header.msg_controllen = sizeof(ancillary);
  EXPECT_EQ(::recvmsg(mine.get(), &header, MSG_CMSG_CLOEXEC), 4);
  EXPECT_STREQ(packet, "GO=1");
  const cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  ASSERT_NE(rights, nullptr);
  ASSERT_EQ(rights->cmsg_len, CMSG_LEN(sizeof(int) * 2));
  int received[2];
  std::memcpy(received, CMSG_DATA(rights), sizeof(received));
  const UniqueFd first(received[0]);
  const UniqueFd second(received[1]);
  char text[8] = {};
  EXPECT_EQ(::read(first.get(), text, sizeof(text)), 3);
  EXPECT_STREQ(text, "A=b");
}

// A peer that reads nothing must not hold up the agent.
TEST_F(ControlSocketTest, AWorkerThatDoesNotReadLosesWhatItIsTold) {
  const UniqueFd mine = Connect();
  ASSERT_TRUE(RunUntil(&loop_, [&] { return socket_->connections() == 1; }));
  int told = 0;
  while (told < 1'000'000 && socket_->SendTo(self_, control::kSave, "1") == 1) ++told;
  EXPECT_GT(told, 0);
  EXPECT_LT(told, 1'000'000);
}

TEST_F(ControlSocketTest, AWorkersChildSpeaksForTheWorker) {
  // The shell becomes a program that never collects its child, so that the agent finds the child
  // (alive or dead) when it accepts.
  SpawnRequest request = test::Shell("\"$0\" control STEP=7 & exec sleep 100000");
  request.argv.push_back(OS_TEST_CHILD);
  const SpawnedProcess worker = Start(request);
  ASSERT_TRUE(RunUntil(&loop_, [&] { return !messages_.empty(); }));
  EXPECT_THAT(messages_, ElementsAre(Pair(worker.pid, "step 7")));
  ASSERT_EQ(speakers_.size(), 1u);
  EXPECT_NE(speakers_.front().pid, worker.pid) << "the process that spoke is known, too";
  EXPECT_NE(speakers_.front().started, 0u);
  ASSERT_TRUE(runner_.SignalGroup(worker.pid, SIGKILL).ok());
  ASSERT_TRUE(RunUntilDead(&loop_, worker.pidfd.get()));
  EXPECT_TRUE(runner_.Reap(worker.pidfd.get()).ok());
}

// Seen red where only the process group was checked: the child belonged to no worker.
TEST_F(ControlSocketTest, AChildInASessionOfItsOwnSpeaksForTheWorkerAndHearsWhatTheWorkerIsTold) {
  SpawnRequest request = test::Shell("setsid \"$0\" control STEP=7 & exec sleep 100000");
  request.argv.push_back(OS_TEST_CHILD);
  const SpawnedProcess worker = Start(request);
  ASSERT_TRUE(RunUntil(&loop_, [&] { return !messages_.empty(); }));
  EXPECT_THAT(messages_, ElementsAre(Pair(worker.pid, "step 7")));
  EXPECT_NE(::getpgid(speakers_.front().pid), worker.pid);
  ASSERT_TRUE(runner_.SignalGroup(worker.pid, SIGKILL).ok());
  ASSERT_TRUE(RunUntilDead(&loop_, worker.pidfd.get()));
  EXPECT_TRUE(runner_.Reap(worker.pidfd.get()).ok());
}

TEST_F(ControlSocketTest, AMalformedPacketClosesThatConnectionWithAReason) {
  const UniqueFd bad = Connect();
  const UniqueFd good = Connect();
  Send(bad, "STEP=1");
  Send(bad, "STEP=many");
  Send(bad, "STEP=2");
  ASSERT_TRUE(RunUntil(&loop_, [&] { return !errors_.empty(); }));
  Send(good, "STEP=3");
  ASSERT_TRUE(RunUntil(&loop_, [&] { return messages_.size() == 2; }));
  EXPECT_THAT(messages_, ElementsAre(Pair(self_, "step 1"), Pair(self_, "step 3")));
  EXPECT_THAT(errors_,
              ElementsAre(Pair(self_,
                               "malformed control message \"STEP=many\": expected STEP=<number>, "
                               "0 or more; the connection is closed")));
  EXPECT_EQ(socket_->connections(), 1u);
}

TEST_F(ControlSocketTest, APacketOfExactlyTheLimitIsTakenAndALargerOneRefused) {
  const UniqueFd fd = Connect();
  const std::string start = "CHECKPOINT=1 /";
  Send(fd, start + std::string(control::kMaxPacketBytes - start.size(), 'x'));
  ASSERT_TRUE(RunUntil(&loop_, [&] { return messages_.size() == 1; }));
  Send(fd, start + std::string(control::kMaxPacketBytes - start.size() + 1, 'x'));
  ASSERT_TRUE(RunUntil(&loop_, [&] { return !errors_.empty(); }));
  EXPECT_EQ(messages_.size(), 1u);
  EXPECT_THAT(errors_, ElementsAre(Pair(self_,
                                        "control packet refused: more than 8192 bytes; the "
                                        "connection is closed")));
  EXPECT_EQ(socket_->connections(), 0u);
}

// Seen red while the control socket had its own limit of 1,024: the other workers were never heard.
TEST_F(ControlSocketTest, EveryWorkerAndEveryStandbyOfAFullNodeIsHeardAndNobodyElse) {
  constexpr std::size_t kAll = 2 * kMaxWorkersPerNode;
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_GT(files.rlim_max, 2 * kAll + 100) << "both ends are here; ulimit -Hn is too low";
  const rlimit wide{files.rlim_max, files.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &wide), 0);
  std::vector<UniqueFd> clients;
  for (std::size_t i = 0; i < kAll; ++i) {
    clients.push_back(Connect());
    if (i % 100 == 0) socket_->ReadToEnd(self_);
  }
  socket_->ReadToEnd(self_);
  ASSERT_EQ(socket_->connections(), kAll);
  EXPECT_TRUE(errors_.empty());
  EXPECT_EQ(socket_->SendTo(self_, control::kSave, "1"), static_cast<int>(kAll));
  clients.push_back(Connect());
  ASSERT_TRUE(RunUntil(&loop_, [&] { return !errors_.empty(); }));
  EXPECT_THAT(errors_, ElementsAre(Pair(self_,
                                        "control connection refused: there are 8192 "
                                        "already")));
  clients.erase(clients.begin());
  ASSERT_TRUE(RunUntil(&loop_, [&] { return socket_->connections() < kAll; }));
  clients.push_back(Connect());
  Send(clients.back(), "STEP=1");
  EXPECT_TRUE(RunUntil(&loop_, [&] { return messages_.size() == 1; }));
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// Without the spare descriptor the connection would stay in the queue and the loop would spin.
TEST_F(ControlSocketTest, RunningOutOfDescriptorsRefusesConnectionsInsteadOfSpinning) {
  const UniqueFd client = Connect();
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const UniqueFd lowest_free(::dup(0));
  const rlimit none{static_cast<rlim_t>(lowest_free.get()) + 1, files.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool refused = RunUntil(&loop_, [&] { return !errors_.empty(); });
  ::setrlimit(RLIMIT_NOFILE, &files);
  ASSERT_TRUE(refused);
  EXPECT_THAT(errors_, ElementsAre(Pair(self_, HasSubstr("no descriptors left"))));
  char byte;
  EXPECT_EQ(::recv(client.get(), &byte, 1, 0), 0) << "the client must see the end";
}

TEST_F(ControlSocketTest, IsForTheOwnerOnlyAndIsRemovedAtTheEnd) {
  struct stat info {};
  ASSERT_EQ(::stat(socket_->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const std::string path = socket_->path();
  const UniqueFd client = Connect();
  int turns = 0;
  ASSERT_TRUE(RunUntil(&loop_, [&] { return ++turns > 3; }));
  socket_.reset();
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST_F(ControlSocketTest, ListenSaysWhatIsWrongWithThePlace) {
  const auto listen = [&](const std::string& directory) {
    return ControlSocket::Listen(
               &loop_, directory, [](const ControlPeer&, const ControlMessage&) {},
               [](pid_t, const std::string&) {}, [](pid_t) { return false; })
        .status();
  };
  const std::string deep = "/" + std::string(120, 'd');
  EXPECT_EQ(listen(deep).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(listen(deep).message()),
            "control socket " + deep +
                "/control.sock: the path has 134 bytes, a Unix socket's can have 107; choose a "
                "shorter directory");
  EXPECT_EQ(listen("/nowhere").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(listen(dir_.path()).message()), HasSubstr("Address already in use"));
}

}  // namespace control_socket_test
}  // namespace ddprun
