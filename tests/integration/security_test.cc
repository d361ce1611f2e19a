// Credentials as users give them: real agents, real daemons, real munged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/os/local_address.h"
#include "tests/support/capabilities.h"
#include "tests/support/job.h"
#include "tests/support/munged.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace security_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kSecret[] = "s3cret-that-must-not-be-seen-anywhere";

class SecurityTest : public testing::Test {
 protected:
  std::string Token(const std::string& name, const std::string& line, mode_t mode = 0600) {
    const std::string path = folder_ / name;
    std::ofstream(path) << line << "\n";
    chmod(path.c_str(), mode);
    return path;
  }
  // Makes certificates in folder_/`folder`, and returns the flags for the node `host`.
  std::vector<std::string> Certificates(const std::string& folder, const std::string& host,
                                        const std::string& name = "ann") {
    const std::string path = folder_ / folder;
    Program certs({DdprunPath(), "certs", path, "--host", host, "--name", name});
    EXPECT_EQ(certs.ExitCode(), 0) << certs.err();
    return {"--tls-ca",  path + "/ca.crt",          "--tls-cert", path + "/" + host + ".crt",
            "--tls-key", path + "/" + host + ".key"};
  }
  Program& AddNode(Job& job, const std::string& endpoint, std::vector<std::string> flags,
                   const std::string& script, const std::string& name = "job") {
    flags.insert(
        flags.end(),
        {"--rdzv-endpoint", endpoint, "--rdzv-id", name, "--nnodes", "2", "--report",
         job.folder() + "/report" + std::to_string(job.size()) + ".json", "sh", "-c", script});
    return job.AddNode(flags);
  }
  static nlohmann::json Report(const Job& job, int node) {
    return nlohmann::json::parse(
        ReadFile(job.folder() + "/report" + std::to_string(node) + ".json"));
  }
  // Two agents with these flags run a job at this daemon.
  void ExpectAJobRuns(const Daemon& daemon, const std::vector<std::string>& flags) {
    Job job(folder_.path());
    AddNode(job, daemon.endpoint(), flags, "exit 0");
    AddNode(job, daemon.endpoint(), flags, "exit 0");
    EXPECT_EQ(job.node(0).ExitCode(), 0) << job.node(0).err();
    EXPECT_EQ(job.node(1).ExitCode(), 0) << job.node(1).err();
  }
  // An agent with these flags ends with 77, and the report says why.
  void ExpectRefused(const Daemon& daemon, const std::vector<std::string>& flags,
                     const std::string& why, const std::string& name = "job") {
    Job job(folder_ / "refused");
    mkdir(job.folder().c_str(), 0700);
    AddNode(job, daemon.endpoint(), flags, "exit 0", name);
    EXPECT_EQ(job.node(0).ExitCode(), 77) << job.node(0).err();
    EXPECT_THAT(job.node(0).err(), HasSubstr(why));
    EXPECT_EQ(Report(job, 0)["outcome"], "refused");
  }

  TempDir folder_;
};

// Each worker asks for the secret of its generation, and records its request and the answer.
constexpr char kAskForSecret[] = R"(
import os, socket, sys
agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
agent.connect(os.environ["DDPRUN_CONTROL_SOCKET"])
agent.send(b"SECRET=1")
name = os.environ["RANK"] + "." + os.environ["DDPRUN_GENERATION"]
with open(os.path.join(sys.argv[1], name), "w") as file:
    print(os.environ.get("DDPRUN_PEER_SECRET", "none"), agent.recv(8192).decode(), file=file)
sys.exit(3 if os.environ["DDPRUN_GENERATION"] == "0" and os.environ["RANK"] == "1" else 0)
)";

// Seen red with a secret that depends on the name of the job alone.
TEST_F(SecurityTest, TheWorkersOfAGenerationShareASecretThatIsNowhereElse) {
  const std::string token = Token("token", kSecret);
  const Daemon daemon(folder_.path(), {"--token-file", token});
  Token("ask.py", kAskForSecret);
  Job job(folder_.path());
  std::filesystem::create_directory(folder_ / "got");
  for (int node = 0; node < 2; ++node) {
    AddNode(job, daemon.endpoint(), {"--token-file", token, "--max-restarts", "1", "-v"},
            "exec python3 " + (folder_ / "ask.py") + " " + (folder_ / "got"));
  }
  for (int node = 0; node < 2; ++node) EXPECT_EQ(job.node(node).ExitCode(), 0);
  const auto got = [&](const std::string& name) { return ReadFile(folder_ / "got/" + name); };
  const std::string prefix = "ask SECRET=";
  ASSERT_EQ(got("1.0").size(), prefix.size() + 64 + 1) << got("1.0");
  EXPECT_EQ(got("1.0").substr(0, prefix.size()), prefix);
  EXPECT_EQ(got("0.1"), got("1.1"));
  EXPECT_NE(got("1.0"), got("1.1"));
  for (const std::string generation : {"1.0", "1.1"}) {
    const std::string secret = got(generation).substr(prefix.size(), 64);
    for (std::size_t node = 0; node < 2; ++node) {
      EXPECT_THAT(job.node(node).err() + job.node(node).out(), Not(HasSubstr(secret)));
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_regular_file() || entry.path().parent_path() == folder_ / "got") continue;
      EXPECT_THAT(ReadFile(entry.path()), Not(HasSubstr(secret))) << entry.path();
    }
  }
}

TEST_F(SecurityTest, WithInsecureThereIsNoSecret) {
  const Daemon daemon(folder_.path(), {"--insecure"});
  Token("ask.py", kAskForSecret);
  Job job(folder_.path());
  std::filesystem::create_directory(folder_ / "got");
  for (int node = 0; node < 2; ++node) {
    AddNode(job, daemon.endpoint(), {"--insecure", "--max-restarts", "1"},
            "exec python3 " + (folder_ / "ask.py") + " " + (folder_ / "got"));
  }
  for (int node = 0; node < 2; ++node) EXPECT_EQ(job.node(node).ExitCode(), 0);
  EXPECT_EQ(ReadFile(folder_ / "got/0.1"), "none SECRET=\n");
}

// Seen red when the doctor printed its findings as they are.
TEST_F(SecurityTest, TheDoctorPrintsNoControlCharacter) {
  Program doctor({DdprunPath(), "doctor", folder_ / "no\x1b[2Jprogram"});
  doctor.ExitCode();  // depends on the machine
  EXPECT_THAT(doctor.out(), HasSubstr("no?[2Jprogram"));
  EXPECT_THAT(doctor.out(), Not(HasSubstr("\x1b")));
}

TEST_F(SecurityTest, ATokenLetsAgentsIn) {
  const std::string token = Token("token", kSecret);
  const Daemon daemon(folder_.path(), {"--token-file", token});
  ExpectAJobRuns(daemon, {"--token-file", token});
  ExpectRefused(daemon, {}, "or one with credentials of its own, give --token-file");
  ExpectRefused(daemon, {"--insecure"}, "asks for a token (--token-file)");
  ExpectRefused(daemon, {"--token-file", Token("wrong", "another secret 16")},
                "does not know this token");
}

// No TLS file is given.
TEST_F(SecurityTest, BeyondLoopbackATokenTravelsOverTls) {
  const std::string token = Token("token", kSecret);
  Daemon daemon(folder_.path(), {"--token-file", token}, "0.0.0.0");
  EXPECT_TRUE(daemon.program().WaitForErr("a token, TLS with a certificate of its own making"));
  EXPECT_THAT(daemon.program().err(), Not(HasSubstr("not encrypted")));
  ExpectAJobRuns(daemon, {"--token-file", token});
  ExpectRefused(daemon, {}, "give --token-file");
  ExpectRefused(daemon, {"--token-file", Token("wrong", "another secret 16")},
                "does not know this token");
  Program status(
      {DdprunPath(), "status", "--rdzv-endpoint", daemon.endpoint(), "--token-file", token});
  EXPECT_EQ(status.ExitCode(), 0) << status.err();
  const auto outside = OutsideAddress();
  DDPRUN_NEEDS(outside.has_value() ? "" : "an address that is not loopback");
  Program from_outside({DdprunPath(), "status", "--rdzv-endpoint",
                        *outside + ":" + std::to_string(daemon.port()), "--token-file", token});
  EXPECT_EQ(from_outside.ExitCode(), 0) << from_outside.err();
}

TEST_F(SecurityTest, CertificatesLetAgentsIn) {
  const Daemon daemon(folder_.path(), Certificates("ours", "head"));
  ExpectAJobRuns(daemon, Certificates("ours", "node"));
  auto flags = Certificates("theirs", "node");
  ExpectRefused(daemon, flags, "not of the authority in --tls-ca");
  flags[1] = folder_ / "ours/ca.crt";
  ExpectRefused(daemon, flags, "the certificate of this side (--tls-cert) is missing, has expired");
}

TEST_F(SecurityTest, MungeLetsAgentsInAndKnowsTheirUser) {
  const Munged munged(folder_ / "munge");
  const std::vector<std::string> flags = {"--munge", "--munge-socket", munged.socket()};
  const Daemon daemon(folder_.path(), flags);
  ExpectAJobRuns(daemon, flags);
  const Munged theirs(folder_ / "theirs", std::string(64, 'x'));
  ExpectRefused(daemon, {"--munge", "--munge-socket", theirs.socket()}, "munge: ");
  ExpectRefused(daemon, {}, "asks for MUNGE (--munge)");
}

// Waiting for munged does not help. Every node prints why, and ends.
TEST_F(SecurityTest, WhereMungedIsAwayEveryNodeSaysSoAndEndsAtOnce) {
  const auto outside = OutsideAddress();
  DDPRUN_NEEDS(outside.has_value() ? "" : "an address that is not loopback");
  const Munged munged(folder_ / "munge");
  std::string port;
  { port = std::to_string(Daemon(folder_.path()).port()); }  // free again
  const std::string endpoint = *outside + ":" + port;
  Job job(folder_.path());
  const auto began = std::chrono::steady_clock::now();
  // The first agent starts the rendezvous and has no munged. The second agent's munged runs.
  AddNode(job, endpoint, {"--rdzv-backend", "c10d", "--munge", "--munge-socket", folder_ / "none"},
          "exit 0");
  AddNode(job, endpoint, {"--munge", "--munge-socket", munged.socket()}, "exit 0");
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(job.node(node).ExitCode(), 77) << job.node(node).err();
    EXPECT_THAT(job.node(node).err(), HasSubstr("munged does not run on " + HostName()));
    EXPECT_THAT(job.node(node).err(), HasSubstr(folder_ / "none"));
    EXPECT_EQ(Report(job, node)["outcome"], "refused");
  }
  // It takes 2 s on an idle machine. An agent that waited would take connect_timeout, 60 s.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

TEST_F(SecurityTest, TheSocketOfMungedIsTheOneThatSlurmUses) {
  const Munged munged(folder_ / "munge");
  std::ofstream(folder_ / "slurm.conf") << "AuthInfo=socket=" << munged.socket() << "\n";
  const std::map<std::string, std::string> environment = {{"SLURM_CONF", folder_ / "slurm.conf"}};
  const Daemon daemon(folder_.path(), {"--munge", "--munge-socket", munged.socket()});
  Job job(folder_.path(), environment);
  AddNode(job, daemon.endpoint(), {"--munge"}, "exit 0");
  AddNode(job, daemon.endpoint(), {"--munge"}, "exit 0");
  EXPECT_EQ(job.node(0).ExitCode(), 0) << job.node(0).err();
  EXPECT_EQ(job.node(1).ExitCode(), 0) << job.node(1).err();
}

TEST_F(SecurityTest, JobsBelongToTheirToken) {
  const Daemon daemon(folder_.path(),
                      {"--token-file", Token("all", "ann:0123456789abcdef\nbob:fedcba9876543210")});
  const std::string ann = Token("ann", "ann:0123456789abcdef");
  const std::string bob = Token("bob", "bob:fedcba9876543210");
  Job job(folder_.path());
  Program& first = AddNode(job, daemon.endpoint(), {"--token-file", ann}, "exit 0");
  ASSERT_TRUE(first.WaitForErr("waiting for 1 node"));
  ExpectRefused(daemon, {"--token-file", bob}, "job job belongs to somebody else");
  AddNode(job, daemon.endpoint(), {"--token-file", ann}, "exit 0");
  EXPECT_EQ(job.node(0).ExitCode(), 0) << job.node(0).err();
  EXPECT_EQ(job.node(1).ExitCode(), 0) << job.node(1).err();
}

TEST_F(SecurityTest, AKilledAgentsGuardianShowsItsTokenToo) {
  const std::string token = Token("token", kSecret);
  const Daemon daemon(folder_.path(), {"--token-file", token});
  Job job(folder_.path());
  const std::string script = "[ $DDPRUN_GENERATION = 1 ] && exit 0; echo up; exec sleep 1000";
  Program& a = AddNode(job, daemon.endpoint(), {"--token-file", token}, script);
  Program& b = AddNode(job, daemon.endpoint(), {"--token-file", token}, script);
  ASSERT_TRUE(a.WaitForOut("up"));
  ASSERT_TRUE(b.WaitForOut("up"));
  a.Signal(SIGKILL);
  // Only the guardian can know this.
  ASSERT_TRUE(b.WaitForErr("its agent was killed")) << b.err();
  AddNode(job, daemon.endpoint(), {"--token-file", token}, script);
  EXPECT_EQ(b.ExitCode(), 0) << b.err();
}

TEST_F(SecurityTest, CredentialsThatAreNoGoodAreExplainedBeforeAnythingStarts) {
  const Daemon daemon(folder_.path());
  const auto error = [&](std::vector<std::string> flags) {
    Job job(folder_ / "early");
    mkdir(job.folder().c_str(), 0700);
    AddNode(job, daemon.endpoint(), flags, "exit 0");
    EXPECT_EQ(job.node(0).ExitCode(), 64) << job.node(0).err();
    flags.insert(flags.begin(), {DdprunPath(), "rendezvous", "--listen", "127.0.0.1:0"});
    Program server(flags);
    EXPECT_EQ(server.ExitCode(), 64) << server.err();
    return job.node(0).err() + server.err();
  };
  const std::string open = Token("open", kSecret, 0644);
  EXPECT_THAT(error({"--token-file", open}), HasSubstr("chmod 600 " + open));
  EXPECT_THAT(error({"--token-file", folder_ / "none"}), HasSubstr(folder_ / "none"));
  auto flags = Certificates("ours", "node");
  chmod(flags[5].c_str(), 0644);
  EXPECT_THAT(error(flags), HasSubstr("chmod 600 " + flags[5]));
  flags[5] = Certificates("ours", "other")[5];
  EXPECT_THAT(error(flags), HasSubstr("does not belong to the certificate " + flags[3]));
}

TEST_F(SecurityTest, ARendezvousThatAnAgentStartsAsksForTheSame) {
  const auto outside = OutsideAddress();
  DDPRUN_NEEDS(outside.has_value() ? "" : "an address that is not loopback");
  std::string port;
  { port = std::to_string(Daemon(folder_.path()).port()); }  // free again
  const std::string endpoint = *outside + ":" + port;
  const std::string token = Token("token", kSecret);
  Job job(folder_.path());
  const std::vector<std::string> flags = {"--rdzv-backend", "c10d", "--token-file", token};
  Program& a = AddNode(job, endpoint, flags, "exit 0");
  ASSERT_TRUE(a.WaitForErr("waiting for 1 node")) << a.err();
  Job stranger(folder_ / "stranger");
  mkdir(stranger.folder().c_str(), 0700);
  AddNode(stranger, endpoint, {}, "exit 0");
  EXPECT_EQ(stranger.node(0).ExitCode(), 77) << stranger.node(0).err();
  AddNode(job, endpoint, flags, "exit 0");
  EXPECT_EQ(job.node(0).ExitCode(), 0) << job.node(0).err();
  EXPECT_EQ(job.node(1).ExitCode(), 0) << job.node(1).err();
  Job bare(folder_ / "bare");
  mkdir(bare.folder().c_str(), 0700);
  AddNode(bare, endpoint, {"--rdzv-backend", "c10d"}, "exit 0");
  EXPECT_EQ(bare.node(0).ExitCode(), 64);
  EXPECT_THAT(bare.node(0).err(), HasSubstr("--token-file"));
}

// ---- on loopback, where nobody gives credentials ----

// The file in which a daemon of this test has its token.
std::string OwnTokenOf(const Daemon& daemon) {
  return TestStateHome() + "/localhost:" + std::to_string(daemon.port()) + "/token";
}

// Seen red with daemons on loopback that ask nobody.
TEST_F(SecurityTest, ADaemonOnLoopbackTakesItsOwnUserAloneAndNeedsNoFlag) {
  Daemon daemon(folder_.path());
  const std::string token = OwnTokenOf(daemon);
  struct stat info {};
  ASSERT_EQ(stat(token.c_str(), &info), 0) << token;
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ExpectAJobRuns(daemon, {});
  Program status({DdprunPath(), "status", "--rdzv-endpoint", daemon.endpoint()});
  EXPECT_EQ(status.ExitCode(), 0) << status.err();
  // Agents that do not look for the token, as a stranger cannot.
  ExpectRefused(daemon, {"--insecure"}, "asks for a token (--token-file)");
  ExpectRefused(daemon, {"--token-file", Token("guess", kSecret)}, "does not know this token");
  Program stranger(
      {DdprunPath(), "stop", "job", "--insecure", "--rdzv-endpoint", daemon.endpoint()});
  EXPECT_EQ(stranger.ExitCode(), 77) << stranger.err();
  const std::string secret = ReadLines(token).at(0);
  EXPECT_EQ(secret.size(), 64u);
  daemon.program().Signal(SIGTERM);
  EXPECT_EQ(daemon.program().ExitCode(), 0);
  EXPECT_THAT(daemon.program().out() + daemon.program().err(), Not(HasSubstr(secret)));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(token).parent_path()));
}

// Seen red with agents that present no token.
TEST_F(SecurityTest, NobodyPosesAsADaemonThatIsNotThere) {
  const Daemon anybody(folder_.path(), {"--insecure"});
  ExpectRefused(anybody, {}, "runs without credentials (--insecure)");
  ExpectAJobRuns(anybody, {"--insecure"});
  const TempDir folder;
  const Daemon other(folder.path(), {"--token-file", Token("token", kSecret)});
  ExpectRefused(other, {},
                "no rendezvous of this user listens there: there is no " + OwnTokenOf(other));
  Program status({DdprunPath(), "status", "--rdzv-endpoint", other.endpoint()});
  EXPECT_EQ(status.ExitCode(), 77);
  EXPECT_THAT(status.err(), HasSubstr("no rendezvous of this user listens there"));
}

// localhost is 127.0.0.1 and ::1, and the daemon has one of them. A program on the other address
// could receive what clients of localhost send, change it, and pass it on to the daemon.
TEST_F(SecurityTest, NobodyElseHasThePortOfLocalhostsOtherAddress) {
  const auto take = [](int port) {
    UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    name.sin6_port = htons(static_cast<std::uint16_t>(port));
    name.sin6_addr = in6addr_loopback;
    const bool taken = bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0;
    return taken ? std::move(fd) : UniqueFd();
  };
  Daemon daemon(folder_.path());
  EXPECT_FALSE(take(daemon.port()).valid());
  daemon.Kill();
  const UniqueFd stranger = take(daemon.port());
  if (!stranger.valid()) GTEST_SKIP() << "without IPv6 nobody can";
  Program next({DdprunPath(), "rendezvous", "--listen", daemon.endpoint()});
  EXPECT_EQ(next.ExitCode(), 69);
  EXPECT_THAT(next.err(), HasSubstr("cannot listen on " + daemon.endpoint() +
                                    ": address already in use: another program has port"));
}

// A daemon was killed, and somebody else listens on its port. The token that the daemon left shows
// that this is not the daemon.
TEST_F(SecurityTest, NobodyPosesAsADaemonThatWasKilled) {
  Daemon daemon(folder_.path());
  daemon.Kill();
  ASSERT_TRUE(std::filesystem::exists(OwnTokenOf(daemon)));
  Program other({DdprunPath(), "rendezvous", "--listen", daemon.endpoint(), "--token-file",
                 Token("token", kSecret)});
  ASSERT_TRUE(other.WaitForOut("listening on")) << other.err();
  ExpectRefused(daemon, {}, "is not trusted: it does not know the token in " + OwnTokenOf(daemon));
}

class TwoUsersTest : public SecurityTest {
 protected:
  static constexpr uid_t kNobody = 65534;

  void SetUp() override {
    DDPRUN_NEEDS(!HasCapability(CAP_SETUID)  ? "CAP_SETUID"
                 : !HasCapability(CAP_CHOWN) ? "CAP_CHOWN"
                                             : "");
    // A copy where the other user may read it, wherever this checkout is.
    std::filesystem::copy_file(DdprunPath(), program_.path() + "/ddprun");
    chmod(program_.path().c_str(), 0755);
    ASSERT_EQ(chown(theirs_.path().c_str(), kNobody, kNobody), 0);
  }
  // ddprun as another user.
  std::unique_ptr<Program> Theirs(const std::vector<std::string>& arguments) {
    std::vector<std::string> argv = {
        "/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--",
        program_ / "ddprun"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return std::make_unique<Program>(
        argv, std::map<std::string, std::string>{{"DDPRUN_STATE_HOME", theirs_ / "home"}}, "/");
  }

  const TempDir program_;
  const TempDir theirs_;
};

TEST_F(TwoUsersTest, EachHasADaemonOnLoopbackAndNeitherSeesTheOthers) {
  const Daemon ours(folder_.path());
  const auto daemon = Theirs({"rendezvous", "--listen", "127.0.0.1:0"});
  const std::string listening = "listening on ";
  ASSERT_TRUE(daemon->WaitForOut(listening)) << daemon->err();
  const std::string line = daemon->out();
  const std::string theirs = line.substr(line.find(listening) + listening.size(),
                                         line.find('\n') - line.find(listening) - listening.size());
  const auto ends_with = [](std::unique_ptr<Program> program, int code, const std::string& text) {
    EXPECT_EQ(program->ExitCode(), code) << program->err();
    EXPECT_THAT(program->err() + program->out(), HasSubstr(text));
  };
  ends_with(Theirs({"status", "--rdzv-endpoint", theirs}), 0, "0 jobs");
  ends_with(Theirs({"--log-dir", theirs_ / "logs", "--rdzv-endpoint", theirs, "--rdzv-id", "mine",
                    "sh", "-c", "echo trained"}),
            0, "trained");
  ends_with(Theirs({"status", "--rdzv-endpoint", ours.endpoint()}), 77,
            "no rendezvous of this user listens there");
  ends_with(Theirs({"--log-dir", theirs_ / "logs", "--rdzv-endpoint", ours.endpoint(), "--rdzv-id",
                    "live", "true"}),
            77, "no rendezvous of this user listens there");
  ends_with(Theirs({"stop", "live", "--insecure", "--rdzv-endpoint", ours.endpoint()}), 77,
            "asks for a token");
  // Root does not use another user's rendezvous either: root cannot know whose it is.
  Program status({DdprunPath(), "status", "--rdzv-endpoint", theirs});
  EXPECT_EQ(status.ExitCode(), 77);
  ExpectAJobRuns(ours, {});
}

TEST_F(TwoUsersTest, WhoeverTakesTheNameOfTheStateHomeIsNamed) {
  const std::map<std::string, std::string> taken = {{"DDPRUN_STATE_HOME", theirs_.path()}};
  const std::string text =
      theirs_.path() + " belongs to user 65534, you are user " + std::to_string(geteuid());
  Program daemon({DdprunPath(), "rendezvous", "--listen", "127.0.0.1:0"}, taken);
  EXPECT_EQ(daemon.ExitCode(), 64);
  EXPECT_THAT(daemon.err(), HasSubstr(text));
  Program agent(
      {DdprunPath(), "--log-dir", folder_ / "logs", "--rdzv-endpoint", "127.0.0.1:1", "true"},
      taken);
  EXPECT_EQ(agent.ExitCode(), 64);
  EXPECT_THAT(agent.err(), HasSubstr(text));
  Program status({DdprunPath(), "status"}, taken);
  EXPECT_EQ(status.ExitCode(), 64);
  EXPECT_THAT(status.err(), HasSubstr(text));
}

TEST_F(SecurityTest, ListensBeyondThisHostWithCredentialsAlone) {
  Program daemon({DdprunPath(), "rendezvous", "--listen", "0.0.0.0:0", "--token-file",
                  Token("token", kSecret)});
  ASSERT_TRUE(daemon.WaitForOut("listening on")) << daemon.err();
  EXPECT_THAT(daemon.err(), Not(HasSubstr("--insecure")));
  auto tls_alone = Certificates("ours", "head");
  tls_alone.erase(tls_alone.begin(), tls_alone.begin() + 2);
  tls_alone.insert(tls_alone.begin(), {DdprunPath(), "rendezvous", "--listen", "0.0.0.0:0"});
  EXPECT_EQ(Program(tls_alone).ExitCode(), 64) << "encrypted, but anybody may join";
  Program insecure({DdprunPath(), "rendezvous", "--listen", "0.0.0.0:0", "--insecure"});
  ASSERT_TRUE(insecure.WaitForOut("listening on")) << insecure.err();
  EXPECT_TRUE(insecure.WaitForErr("--insecure: anybody who reaches"));
}

// Seen red when the workers' environment kept the agent's variables, and when a message quoted the
// line of a token file.
TEST_F(SecurityTest, NothingSecretIsSeenAnywhere) {
  const std::string token = Token("token", kSecret);
  Daemon daemon(folder_.path(), {"--token-file", token, "--verbose"});
  Job job(folder_.path(), {{"DDPRUN_TOKEN_FILE", token}});
  const std::string script = "env; cat /proc/$PPID/cmdline; echo up; exec sleep 1000";
  Program& a = AddNode(job, daemon.endpoint(), {"--verbose"}, script);
  Program& b = AddNode(job, daemon.endpoint(), {"--verbose"}, script);
  ASSERT_TRUE(a.WaitForOut("up"));
  ASSERT_TRUE(b.WaitForOut("up"));
  std::string seen;
  for (const pid_t pid : job.Survivors()) {
    seen += ReadFile("/proc/" + std::to_string(pid) + "/cmdline");
    seen += ReadFile("/proc/" + std::to_string(pid) + "/environ");
  }
  const std::string worker = ReadFile("/proc/" + std::to_string(job.Worker(0)) + "/environ");
  EXPECT_THAT(worker, HasSubstr("MASTER_PORT"));
  EXPECT_THAT(worker, Not(HasSubstr("TOKEN")));
  EXPECT_THAT(a.out(), Not(HasSubstr("TOKEN")));
  a.Signal(SIGTERM);
  EXPECT_EQ(a.ExitCode(), 143);
  EXPECT_EQ(b.ExitCode(), 143);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    if (entry.is_regular_file() && entry.path() != token) seen += ReadFile(entry.path());
  }
  seen += a.out() + a.err() + b.out() + b.err() + daemon.program().out() + daemon.program().err();
  EXPECT_THAT(seen, HasSubstr("MASTER_PORT"));
  EXPECT_THAT(seen, Not(HasSubstr(kSecret)));
  std::ofstream(token, std::ios::app) << kSecret << "\n";
  Program broken({DdprunPath(), "rendezvous", "--listen", "127.0.0.1:0", "--token-file", token});
  EXPECT_EQ(broken.ExitCode(), 64);
  EXPECT_THAT(broken.err(), Not(HasSubstr(kSecret)));
}

TEST_F(SecurityTest, CertsSaysWhatItWroteAndWritesOverNothing) {
  const std::vector<std::string> argv = {
      DdprunPath(), "certs", folder_ / "c", "--host", "a,10.0.0.7", "--host", "b"};
  Program first(argv);
  EXPECT_EQ(first.ExitCode(), 0) << first.err();
  for (const char* name : {"ca.crt", "ca.key", "a.crt", "a.key", "b.crt", "b.key"}) {
    EXPECT_THAT(first.out(), HasSubstr("/c/" + std::string(name)));
  }
  Program second(argv);
  EXPECT_EQ(second.ExitCode(), 1);
  EXPECT_THAT(second.err(), HasSubstr("a.crt is there already"));
}

}  // namespace security_test
}  // namespace ddprun
