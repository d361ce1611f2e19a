// Clients that nobody wants, against four daemons with a live job each: one asks for tokens on
// loopback, one for tokens beyond it, one for certificates, and one on loopback was given nothing
// and makes a token; and relays between. A fifth one's certificates expire, and are renewed while
// its job runs. Each try must be refused with the code that it deserves; the jobs must not notice;
// the daemons must not keep a descriptor or memory for it.
//
//     hostile_clients [--tries N] [--seed S]     twice N; prints the table of verdicts; exits 1 on
//     a wrong one
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddprun/v1/operator.grpc.pb.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/grpc_log.h"
#include "rendezvous/auth/transcript.h"
#include "tests/support/job.h"
#include "tests/support/relay.h"
#include "tests/support/sanitizer.h"

namespace ddprun {
namespace {

using Stub = v1::Rendezvous::Stub;
using grpc::StatusCode;
using Clock = std::chrono::steady_clock;

// Whatever else fails to notice it, a connection without a call is closed after a minute.
constexpr std::chrono::seconds kPatience{75};
// Of the second half, against the first: the same for 500 tries and for 2,500 (1 and 2 MiB).
constexpr long kMaxGrowthKib = 4096 + kSanitizerKib;
constexpr long kMaxLogLines = 500;
constexpr int kSlowOnes = 40;  // of those that only time ends, for each kind

std::string Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  chmod(path.c_str(), 0600);
  return path;
}

// ---- a daemon with a live job ----

class LiveJob {
 public:
  LiveJob(const std::string& folder, const std::vector<std::string>& daemon_flags,
          const std::vector<std::string>& agent_flags, const std::string& host = "127.0.0.1")
      : folder_(folder), daemon_(folder, daemon_flags, host), job_(folder) {
    for (int node = 0; node < 2; ++node) {
      auto flags = agent_flags;
      flags.insert(flags.end(), {"--rdzv-endpoint", daemon_.endpoint(), "--rdzv-id", "live",
                                 "--nnodes", "2", "--nproc-per-node", "2", "sh", "-c",
                                 "echo up; while [ ! -e " + folder +
                                     "/end ]; do sleep 0.05; done; exit $DDPRUN_GENERATION"});
      job_.AddNode(flags);
    }
    for (int node = 0; node < 2; ++node) {
      if (!job_.node(node).WaitForOut("up"))
        Fail("the job does not start: " + job_.node(node).err());
    }
  }

  void RestartDaemon() {
    daemon_.Kill();
    daemon_.Start();
  }

  const std::string& folder() const { return folder_; }
  std::string endpoint() const { return daemon_.endpoint(); }
  int port() const { return daemon_.port(); }

  int Descriptors() const {
    int count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(daemon_pid()) + "/fd")) {
      ++count;
    }
    return count;
  }
  long RssKib() const {
    std::ifstream status("/proc/" + std::to_string(daemon_pid()) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("VmRSS:", 0) == 0) return std::stol(line.substr(6));
    }
    return 0;
  }
  // Waits until what was open is closed. Polls: nobody tells when another process closes something.
  int DescriptorsAtRest(int expected) const {
    const auto deadline = Clock::now() + kPatience;
    while (Descriptors() > expected && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // nothing tells of a close
    }
    return Descriptors();
  }

  // The job ends as if nobody had been there: exit code 0 is generation 0.
  bool EndsWell() {
    std::ofstream(folder_ + "/end") << "";
    bool well = true;
    for (int node = 0; node < 2; ++node) {
      const int code = job_.node(node).ExitCode();
      const bool alone = job_.node(node).err().find("generation 1") == std::string::npos;
      if (code != 0 || !alone) {
        std::printf("agent %d ended with %d:\n%s\n", node, code, job_.node(node).err().c_str());
        well = false;
      }
    }
    return well;
  }
  std::string Log() { return const_cast<Daemon&>(daemon_).program().err(); }

 private:
  // Thrown, so that the processes of all jobs are ended on the way out.
  [[noreturn]] static void Fail(const std::string& why) { throw std::runtime_error(why); }
  pid_t daemon_pid() const { return const_cast<Daemon&>(daemon_).program().pid(); }

  const std::string folder_;
  Daemon daemon_;
  Job job_;
};

std::vector<std::string> TlsFlags(const std::string& folder) {
  return {"--tls-ca",           folder + "/ca.crt", "--tls-cert",
          folder + "/node.crt", "--tls-key",        folder + "/node.key"};
}

// ---- a certificate that expires in mid-job ----

class BriefJob {
 public:
  // `folder`: exists. `start`: how long such a job took to start on this machine.
  BriefJob(const std::string& folder, std::chrono::seconds start)
      : certificates_(folder + "/certs"), lifetime_(kShortest + 4 * start) {
    made_ = Make("node", lifetime_);
    job_.emplace(folder, TlsFlags(certificates_), TlsFlags(certificates_));
  }

  // Waits until it has expired, and renews it: the daemon shows the new one without a restart, and
  // after one the agents show theirs, which they have not been told of either.
  bool RenewInMidJob() {
    std::this_thread::sleep_until(made_ + lifetime_ + std::chrono::seconds(1));
    if (Status() == 0) return Fail("a certificate that has expired is taken");
    Make("renewed", std::chrono::hours(24));
    for (const std::string suffix : {".crt", ".key"}) {
      std::filesystem::rename(certificates_ + "/renewed" + suffix,
                              certificates_ + "/node" + suffix);
    }
    const auto deadline = Clock::now() + kPatience;
    while (Status() != 0) {
      if (Clock::now() > deadline) return Fail("the daemon does not show its new certificate");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // nothing tells of it
    }
    job_->RestartDaemon();
    return true;
  }
  bool EndsWell() { return job_->EndsWell(); }

 private:
  // Of the certificate: until its job runs, and no longer than a person wants to wait.
  static constexpr std::chrono::seconds kShortest{12};

  std::chrono::system_clock::time_point Make(const std::string& node,
                                             std::chrono::seconds lifetime) const {
    const auto made = auth::MakeCertificates({certificates_, "ann", {{node}}, lifetime});
    if (!made.ok()) std::printf("%s\n", made.status().ToString().c_str());
    return std::chrono::system_clock::now();
  }
  // What an operator who has the same files is told.
  int Status() const {
    std::vector<std::string> argv = {DdprunPath(), "status", "--rdzv-endpoint", job_->endpoint()};
    const auto flags = TlsFlags(certificates_);
    argv.insert(argv.end(), flags.begin(), flags.end());
    return Program(argv).ExitCode();
  }
  static bool Fail(const char* why) {
    std::printf("%s\n", why);
    return false;
  }

  const std::string certificates_;
  const std::chrono::seconds lifetime_;
  std::chrono::system_clock::time_point made_;
  std::optional<LiveJob> job_;
};

// ---- verdicts ----

struct Verdicts {
  std::map<std::string, std::map<std::string, int>> got;
  std::map<std::string, std::string> expected;

  void Add(const std::string& kind, const std::string& want, const std::string& verdict) {
    expected[kind] = want;
    ++got[kind][verdict];
  }
  void AddAll(const Verdicts& others) {
    for (const auto& [kind, verdicts] : others.got) {
      expected[kind] = others.expected.at(kind);
      for (const auto& [verdict, count] : verdicts) got[kind][verdict] += count;
    }
  }
  bool Print() const {
    bool right = true;
    int total = 0;
    for (const auto& [kind, verdicts] : got) {
      for (const auto& [verdict, count] : verdicts) {
        const bool ok = verdict == expected.at(kind);
        right = right && ok;
        total += count;
        std::printf("%-44s %-20s %5d%s\n", kind.c_str(), verdict.c_str(), count,
                    ok ? "" : ("   WRONG, expected " + expected.at(kind)).c_str());
      }
    }
    std::printf("%-44s %-20s %5d\n", "total", "", total);
    return right;
  }
};

std::string NameOf(StatusCode code) {
  switch (code) {
    case StatusCode::OK:
      return "OK";
    case StatusCode::UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    case StatusCode::PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case StatusCode::INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case StatusCode::RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case StatusCode::DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case StatusCode::UNAVAILABLE:
      return "UNAVAILABLE";
    case StatusCode::UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    default:
      return "code " + std::to_string(code);
  }
}

// ---- clients that speak gRPC ----

std::unique_ptr<Stub> Connect(const std::string& endpoint,
                              const std::shared_ptr<grpc::ChannelCredentials>& credentials =
                                  grpc::InsecureChannelCredentials()) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return v1::Rendezvous::NewStub(grpc::CreateCustomChannel(endpoint, credentials, arguments));
}

v1::AgentMessage JoinOf(const std::string& job) {
  v1::AgentMessage message;
  message.mutable_header()->set_job(job);
  message.mutable_header()->set_generation(-1);
  message.mutable_header()->set_incarnation(666);
  auto& join = *message.mutable_join();
  join.mutable_job()->set_min_nodes(2);
  join.mutable_job()->set_max_nodes(2);
  join.mutable_job()->set_heartbeat_ms(1000);
  join.mutable_job()->set_lease_ms(3000);
  join.mutable_node()->set_host("evil");
  join.mutable_node()->set_address("10.0.0.66");
  join.mutable_node()->set_worker_count(2);
  join.set_offered_port(6666);
  return message;
}

// A session that sends `message` (nothing, if it is null) and waits for its end.
std::string Session(Stub& stub, grpc::ClientContext& context, const v1::AgentMessage* message) {
  context.set_deadline(std::chrono::system_clock::now() + 2 * kPatience);
  const auto stream = stub.Session(&context);
  if (message != nullptr) stream->Write(*message);
  v1::RendezvousMessage answer;
  bool told = false;
  while (stream->Read(&answer)) {
    told = true;
    context.TryCancel();
  }
  const grpc::Status status = stream->Finish();
  return told ? "was answered" : NameOf(status.error_code());
}

std::string ReportGone(Stub& stub, grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  v1::GoneReport report;
  *report.mutable_header() = JoinOf("live").header();
  v1::GoneReceived received;
  return NameOf(stub.ReportGone(&context, report, &received).error_code());
}

class TokenAttacks {
 public:
  explicit TokenAttacks(const LiveJob* job)
      : endpoint_(job->endpoint()),
        owner_(Load(job->folder() + "/ann")),
        other_(Load(job->folder() + "/bob")),
        wrong_(Load(job->folder() + "/wrong")) {}

  void NoProof(Verdicts& verdicts) const {
    grpc::ClientContext context;
    const auto message = JoinOf("live");
    verdicts.Add("token: no proof, a session", "UNAUTHENTICATED",
                 Session(*Connect(endpoint_), context, &message));
  }
  void NoProofReport(Verdicts& verdicts) const {
    grpc::ClientContext context;
    verdicts.Add("token: no proof, an agent reported gone", "UNAUTHENTICATED",
                 ReportGone(*Connect(endpoint_), context));
  }
  void WrongToken(Verdicts& verdicts) const {
    // A client that, unlike ours, answers although the server has not proven anything.
    const auto stub = Connect(endpoint_);
    grpc::ClientContext handshake;
    const auto request = wrong_->NewHandshake();
    v1::HandshakeReply reply;
    stub->Handshake(&handshake, request, &reply);
    v1::AuthProof proof;
    proof.set_scheme(request.scheme());
    proof.set_name("ann");
    proof.set_client_nonce(request.client_nonce());
    proof.set_server_nonce(reply.server_nonce());
    proof.set_client_proof(auth::RandomBytes(32));
    grpc::ClientContext context;
    context.AddMetadata(auth::kProofMetadata, proof.SerializeAsString());
    const auto message = JoinOf("live");
    verdicts.Add("token: a wrong one", "UNAUTHENTICATED", Session(*stub, context, &message));
    grpc::ClientContext honest;
    const auto status = wrong_->Authorize(*stub, "Session", Deadline(), &honest);
    verdicts.Add("token: a wrong one, our own client", "does not trust it",
                 absl::IsPermissionDenied(status) ? "does not trust it" : "trusts it");
  }
  void Replay(Verdicts& verdicts) const {
    const auto stub = Connect(endpoint_);
    grpc::ClientContext handshake;
    const auto request = other_->NewHandshake();
    v1::HandshakeReply reply;
    stub->Handshake(&handshake, request, &reply);
    const auto proof = other_->Prove(request, reply, "ReportGone", "");
    const std::string text = proof.ok() ? *proof : "";
    grpc::ClientContext first;
    first.AddMetadata(auth::kProofMetadata, text);
    verdicts.Add("token: of another owner, an agent reported gone", "PERMISSION_DENIED",
                 ReportGone(*stub, first));
    grpc::ClientContext second;
    second.AddMetadata(auth::kProofMetadata, text);
    verdicts.Add("token: a proof again", "UNAUTHENTICATED", ReportGone(*stub, second));
    grpc::ClientContext third;
    third.AddMetadata(auth::kProofMetadata, text);
    verdicts.Add("token: a proof again, from elsewhere", "UNAUTHENTICATED",
                 ReportGone(*Connect(endpoint_), third));
  }
  void OtherOwner(Verdicts& verdicts) const {
    const auto stub = Connect(endpoint_);
    grpc::ClientContext context;
    const auto message = JoinOf("live");
    Authorize(*other_, *stub, &context);
    verdicts.Add("token: of another owner, joins", "PERMISSION_DENIED",
                 Session(*stub, context, &message));
  }
  void OddMetadata(Verdicts& verdicts, std::mt19937_64& random) const {
    grpc::ClientContext context;
    std::string text(random() % 8000, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    context.AddMetadata(auth::kProofMetadata, text);
    verdicts.Add("token: nonsense as a proof", "UNAUTHENTICATED",
                 ReportGone(*Connect(endpoint_), context));
  }
  void OddHandshake(Verdicts& verdicts, std::mt19937_64& random) const {
    v1::HandshakeRequest request = wrong_->NewHandshake();
    if (random() % 2 == 0) {
      request.set_client_nonce(std::string(random() % 32, 'x'));
    } else {
      request.set_name(std::string(65 + random() % 1000, 'x'));
    }
    grpc::ClientContext context;
    v1::HandshakeReply reply;
    verdicts.Add("token: a handshake out of bounds", "INVALID_ARGUMENT",
                 NameOf(Connect(endpoint_)->Handshake(&context, request, &reply).error_code()));
  }
  void Malformed(Verdicts& verdicts, std::mt19937_64& random) const {
    v1::AgentMessage message = JoinOf("live");
    switch (random() % 4) {
      case 0:
        message.mutable_header()->set_incarnation(0);
        break;
      case 1:
        message.mutable_header()->set_job(std::string(300, 'j'));
        break;
      case 2:
        message.mutable_join()->mutable_node()->set_worker_count(1 << 20);
        break;
      default:
        message.mutable_drained();
        break;  // before a Join
    }
    const auto stub = Connect(endpoint_);
    grpc::ClientContext context;
    Authorize(*owner_, *stub, &context);
    verdicts.Add("insider: a message out of bounds", "INVALID_ARGUMENT",
                 Session(*stub, context, &message));
  }
  void Oversized(Verdicts& verdicts) const {
    v1::AgentMessage message = JoinOf("live");
    message.mutable_join()->mutable_node()->set_host(std::string(2 << 20, 'h'));
    const auto stub = Connect(endpoint_);
    grpc::ClientContext context;
    Authorize(*owner_, *stub, &context);
    verdicts.Add("insider: a message of 2 MiB", "RESOURCE_EXHAUSTED",
                 Session(*stub, context, &message));
  }
  void NoJoin(Verdicts& verdicts) const {
    const auto stub = Connect(endpoint_);
    grpc::ClientContext context;
    Authorize(*owner_, *stub, &context);
    verdicts.Add("insider: a session without a Join", "DEADLINE_EXCEEDED",
                 Session(*stub, context, nullptr));
  }

 private:
  using Credentials = std::shared_ptr<const auth::ClientCredentials>;

  static std::chrono::system_clock::time_point Deadline() {
    return std::chrono::system_clock::now() + kPatience;
  }
  static Credentials Load(const std::string& path) {
    auth::CredentialOptions options;
    options.token_file = path;
    return auth::ClientCredentials::Load(options).value();
  }
  static void Authorize(const auth::ClientCredentials& credentials, Stub& stub,
                        grpc::ClientContext* context) {
    const auto status = credentials.Authorize(stub, "Session", Deadline(), context);
    if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  }

  const std::string endpoint_;
  const Credentials owner_;
  const Credentials other_;
  const Credentials wrong_;
};

// Another user of this host, at a daemon on loopback that was given no credentials.
class LoopbackAttacks {
 public:
  // `impostor`: a daemon of somebody else, which may have taken the port of one that is not there.
  LoopbackAttacks(const LiveJob* job, const LiveJob* impostor)
      : endpoint_(job->endpoint()), impostor_(impostor->endpoint()) {
    auth::CredentialOptions options;
    options.token_file = TestStateHome() + "/localhost:" + std::to_string(job->port()) + "/token";
    owner_ = auth::ClientCredentials::Load(options).value();
  }

  void Joins(Verdicts& verdicts) const {
    grpc::ClientContext context;
    const auto message = JoinOf("live");
    verdicts.Add("loopback: a stranger joins", "UNAUTHENTICATED",
                 Session(*Connect(endpoint_), context, &message));
  }
  void ReportsGone(Verdicts& verdicts) const {
    grpc::ClientContext context;
    verdicts.Add("loopback: a stranger reports an agent gone", "UNAUTHENTICATED",
                 ReportGone(*Connect(endpoint_), context));
  }
  void Guesses(Verdicts& verdicts) const {
    const auto stub = Connect(endpoint_);
    const auto request = owner_->NewHandshake();
    grpc::ClientContext handshake;
    v1::HandshakeReply reply;
    stub->Handshake(&handshake, request, &reply);
    v1::AuthProof proof;
    proof.set_scheme(request.scheme());
    proof.set_name(request.name());
    proof.set_client_nonce(request.client_nonce());
    proof.set_server_nonce(reply.server_nonce());
    proof.set_client_proof(auth::RandomBytes(32));
    grpc::ClientContext context;
    context.AddMetadata(auth::kProofMetadata, proof.SerializeAsString());
    const auto message = JoinOf("live");
    verdicts.Add("loopback: a stranger guesses the token", "UNAUTHENTICATED",
                 Session(*stub, context, &message));
  }
  void Stops(Verdicts& verdicts) const {
    grpc::ClientContext context;
    v1::StopRequest request;
    request.set_job("live");
    v1::OperatorAnswer answer;
    const auto channel = grpc::CreateChannel(endpoint_, grpc::InsecureChannelCredentials());
    const auto status = v1::Operator::NewStub(channel)->StopJob(&context, request, &answer);
    verdicts.Add("loopback: a stranger stops the job", "UNAUTHENTICATED",
                 NameOf(status.error_code()));
  }
  // The other way round: our client, with the token that the daemon has left, at a stranger's.
  void Poses(Verdicts& verdicts) const {
    grpc::ClientContext context;
    const auto status = owner_->Authorize(*Connect(impostor_), "Session",
                                          std::chrono::system_clock::now() + kPatience, &context);
    verdicts.Add("loopback: a stranger poses as the daemon", "does not trust it",
                 absl::IsPermissionDenied(status) ? "does not trust it" : "trusts it");
  }

 private:
  const std::string endpoint_;
  const std::string impostor_;
  std::shared_ptr<const auth::ClientCredentials> owner_;
};

// Somebody has taken the port that agents were told of, and passes all on to the real rendezvous.
class RelayAttacks {
 public:
  // `job`: one whose rendezvous other hosts can reach. `secret`: its token.
  RelayAttacks(const LiveJob* job, std::string secret)
      : endpoint_(job->endpoint()), secret_(std::move(secret)) {
    auth::CredentialOptions options;
    options.token_file = job->folder() + "/token";
    on_loopback_ = auth::ClientCredentials::Load(options).value();
    options.reachable = true;
    beyond_ = auth::ClientCredentials::Load(options).value();
  }

  void OurClient(Verdicts& verdicts, Relay::Speaks speaks) const {
    const Relay relay(endpoint_, speaks);
    const auto credentials = CredentialsFor(speaks);
    const auto stub = Connect(relay.endpoint(), credentials->NewTransport().credentials);
    grpc::ClientContext context;
    const auto status = credentials->Authorize(
        *stub, "Session", std::chrono::system_clock::now() + kPatience, &context);
    verdicts.Add("relay, " + NameOf(speaks) + ": our own client", "does not trust it",
                 absl::IsPermissionDenied(status) ? "does not trust it" : status.ToString());
  }
  // One that does not look whose certificate it sees, and joins.
  void CarelessClient(Verdicts& verdicts, Relay::Speaks speaks) const {
    const Relay relay(endpoint_, speaks);
    const auto credentials = CredentialsFor(speaks);
    const auto stub = Connect(relay.endpoint(), credentials->NewTransport().credentials);
    grpc::ClientContext handshake;
    const auto request = credentials->NewHandshake();
    v1::HandshakeReply reply;
    stub->Handshake(&handshake, request, &reply);
    grpc::ClientContext context;
    context.AddMetadata(
        auth::kProofMetadata,
        NaiveProof(request, reply, speaks == Relay::Speaks::kTls ? relay.certificate() : "",
                   secret_, "Session"));
    const auto message = JoinOf("live");
    const std::string verdict = Session(*stub, context, &message);
    verdicts.Add("relay, " + NameOf(speaks) + ": a careless client", "UNAUTHENTICATED",
                 relay.heard() == 0 ? verdict : "the relay has heard the rendezvous");
  }

 private:
  static std::string NameOf(Relay::Speaks speaks) {
    return speaks == Relay::Speaks::kTls ? "a certificate of its own" : "without TLS";
  }
  const std::shared_ptr<const auth::ClientCredentials>& CredentialsFor(Relay::Speaks speaks) const {
    return speaks == Relay::Speaks::kTls ? beyond_ : on_loopback_;
  }

  const std::string endpoint_;
  const std::string secret_;
  std::shared_ptr<const auth::ClientCredentials> on_loopback_;
  std::shared_ptr<const auth::ClientCredentials> beyond_;
};

// A Session over TLS with these files, whatever they are.
void TlsAttack(const LiveJob& job, const std::string& kind, const std::string& identity,
               Verdicts& verdicts) {
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = ReadFile(job.folder() + "/ours/ca.crt");
  if (!identity.empty()) {
    ssl.pem_cert_chain = ReadFile(job.folder() + "/" + identity + ".crt");
    ssl.pem_private_key = ReadFile(job.folder() + "/" + identity + ".key");
  }
  grpc::ClientContext context;
  const auto message = JoinOf("live");
  verdicts.Add(kind, "UNAVAILABLE",
               Session(*Connect(job.endpoint(), grpc::SslCredentials(ssl)), context, &message));
}

// ---- clients that speak something else ----

class RawClient {
 public:
  RawClient(int port, const std::string& bytes) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port = htons(static_cast<std::uint16_t>(port));
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) perror("connect");
    if (!bytes.empty()) send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // Reads what there is until the server closes.
  std::string Verdict() const {
    const auto deadline = Clock::now() + kPatience;
    char buffer[4096];
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      pollfd event{fd_, POLLIN, 0};
      if (left.count() <= 0 || poll(&event, 1, static_cast<int>(left.count())) <= 0) return "open";
      if (recv(fd_, buffer, sizeof buffer, 0) <= 0) return "closed";
    }
  }

 private:
  const int fd_;
};

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const std::string kSettings("\0\0\0\4\0\0\0\0\0", 9);

// A frame of HTTP/2 on the first stream.
std::string Frame(char type, char flags, const std::string& payload) {
  const auto size = payload.size();
  std::string frame = {static_cast<char>(size >> 16), static_cast<char>(size >> 8),
                       static_cast<char>(size), type, flags};
  return frame + std::string("\0\0\0\1", 4) + payload;
}

// A call of a method that anybody may make, with the first bytes of its request, of a hundred.
std::string HalfACall() {
  std::string headers;
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {":method", "POST"},
           {":scheme", "http"},
           {":path", "/ddprun.v1.Rendezvous/Handshake"},
           {":authority", "localhost"},
           {"te", "trailers"},
           {"content-type", "application/grpc"}}) {
    headers += '\0';  // as it is, and not to be remembered
    headers += static_cast<char>(name.size()) + name;
    headers += static_cast<char>(value.size()) + value;
  }
  constexpr char kData = 0;
  constexpr char kHeaders = 1;
  constexpr char kEndHeaders = 4;
  return kPreface + kSettings + Frame(kHeaders, kEndHeaders, headers) +
         Frame(kData, 0, std::string("\0\0\0\0\x64", 5) + "half");
}

std::string Noise(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

void Nonsense(const LiveJob& job, const std::string& kind, std::mt19937_64& random,
              Verdicts& verdicts) {
  const std::size_t size = 64 + random() % 512;
  std::string bytes;
  switch (random() % 4) {
    case 0:
      bytes = Noise(random, size);
      break;
    case 1:
      bytes = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
      break;
    case 2:
      bytes = kPreface + kSettings + Noise(random, size);
      break;  // frames of nonsense
    // A frame of 16 MiB.
    default:
      bytes = kPreface + kSettings + std::string("\xff\xff\xff\0\0\0\0\0\1", 9);
      break;
  }
  verdicts.Add(kind + ": bytes that are no gRPC", "closed", RawClient(job.port(), bytes).Verdict());
}

int Run(int tries, std::uint64_t seed) {
  auth::QuietGrpc();
  // Each of malloc's arenas, one a thread, keeps what the largest message took: with one, what
  // grows is what leaks.
  setenv("MALLOC_ARENA_MAX", "1", 1);
  std::mt19937_64 random(seed);
  const TempDir folder;
  const std::string token = folder / "token";
  const std::string tls = folder / "tls";
  const std::string own = folder / "own";
  const std::string sealed = folder / "sealed";
  const std::string brief = folder / "brief";
  for (const std::string& one : {token, tls, own, sealed, brief}) mkdir(one.c_str(), 0700);
  const std::string secret = "0123456789abcdef";
  Write(sealed + "/token", secret + "\n");
  Write(token + "/all", "ann:" + secret + "a\nbob:" + secret + "b\n");
  Write(token + "/ann", "ann:" + secret + "a\n");
  Write(token + "/bob", "bob:" + secret + "b\n");
  Write(token + "/wrong", "ann:" + secret + "c\n");
  for (const auto& [name, days] : {std::pair("node", 30), std::pair("old", -1)}) {
    if (!auth::MakeCertificates({tls + "/ours", "ann", {{name}}, std::chrono::hours(24 * days)})
             .ok())
      return 1;
  }
  if (!auth::MakeCertificates({tls + "/theirs", "ann", {{"node"}}}).ok()) return 1;
  const std::vector<std::string> tls_flags = TlsFlags(tls + "/ours");
  LiveJob token_job(token, {"--token-file", token + "/all"}, {"--token-file", token + "/ann"});
  const auto began = Clock::now();
  LiveJob tls_job(tls, tls_flags, tls_flags);
  const auto start = std::chrono::ceil<std::chrono::seconds>(Clock::now() - began);
  LiveJob own_job(own, {}, {});
  LiveJob sealed_job(sealed, {"--token-file", sealed + "/token"},
                     {"--token-file", sealed + "/token"}, "0.0.0.0");
  BriefJob brief_job(brief, start);
  const TokenAttacks attacks(&token_job);
  const LoopbackAttacks stranger(&own_job, &token_job);
  const RelayAttacks relays(&sealed_job, secret);

  const std::vector<std::function<void(Verdicts&)>> quick = {
      [&](Verdicts& v) { attacks.NoProof(v); },
      [&](Verdicts& v) { attacks.NoProofReport(v); },
      [&](Verdicts& v) { attacks.WrongToken(v); },
      [&](Verdicts& v) { attacks.Replay(v); },
      [&](Verdicts& v) { attacks.OtherOwner(v); },
      [&](Verdicts& v) { attacks.OddMetadata(v, random); },
      [&](Verdicts& v) { attacks.OddHandshake(v, random); },
      [&](Verdicts& v) { attacks.Malformed(v, random); },
      [&](Verdicts& v) { attacks.Oversized(v); },
      [&](Verdicts& v) { stranger.Joins(v); },
      [&](Verdicts& v) { stranger.ReportsGone(v); },
      [&](Verdicts& v) { stranger.Guesses(v); },
      [&](Verdicts& v) { stranger.Stops(v); },
      [&](Verdicts& v) { stranger.Poses(v); },
      [&](Verdicts& v) { Nonsense(token_job, "token", random, v); },
      [&](Verdicts& v) { Nonsense(tls_job, "mTLS", random, v); },
      [&](Verdicts& v) { Nonsense(sealed_job, "beyond loopback", random, v); },
      [&](Verdicts& v) { relays.OurClient(v, Relay::Speaks::kTls); },
      [&](Verdicts& v) { relays.OurClient(v, Relay::Speaks::kPlain); },
      [&](Verdicts& v) { relays.CarelessClient(v, Relay::Speaks::kTls); },
      [&](Verdicts& v) { relays.CarelessClient(v, Relay::Speaks::kPlain); },
      [&](Verdicts& v) { TlsAttack(tls_job, "mTLS: no certificate", "", v); },
      [&](Verdicts& v) { TlsAttack(tls_job, "mTLS: another authority's", "theirs/node", v); },
      [&](Verdicts& v) { TlsAttack(tls_job, "mTLS: an expired certificate", "ours/old", v); },
      [&](Verdicts& v) {
        grpc::ClientContext context;
        const auto message = JoinOf("live");
        v.Add("mTLS: no TLS", "UNAVAILABLE",
              Session(*Connect(tls_job.endpoint()), context, &message));
      },
  };

  const auto round = [&](int count) {
    Verdicts verdicts;
    // Those that only time ends, all along.
    std::vector<std::pair<std::string, std::unique_ptr<RawClient>>> half_open;
    const auto open = [&](const std::string& kind, const LiveJob& job, const std::string& bytes) {
      half_open.emplace_back(kind, std::make_unique<RawClient>(job.port(), bytes));
    };
    const std::string partial_hello("\x16\x03\x01\x02\x00\x01\x00", 7);
    for (int i = 0; i < kSlowOnes; ++i) {
      open("token: connects and is silent", token_job, "");
      open("token: half of a preface", token_job, std::string(kPreface, 10));
      open("token: HTTP/2 without a call, deaf", token_job, kPreface + kSettings);
      open("token: half of a call, deaf", token_job, HalfACall());
      open("mTLS: connects and is silent", tls_job, "");
      open("mTLS: half of a ClientHello", tls_job, partial_hello);
    }
    std::vector<Verdicts> slow(kSlowOnes);
    std::vector<std::thread> threads;
    for (Verdicts& mine : slow) threads.emplace_back([&] { attacks.NoJoin(mine); });
    for (int i = 0; i < count; ++i) quick[random() % quick.size()](verdicts);
    for (auto& [kind, client] : half_open) verdicts.Add(kind, "closed", client->Verdict());
    for (std::thread& thread : threads) thread.join();
    for (const Verdicts& mine : slow) verdicts.AddAll(mine);
    return verdicts;
  };

  const bool renewed = brief_job.RenewInMidJob();
  std::printf("a certificate that expired in mid-job: %s\n", renewed ? "renewed" : "LOST");
  const int descriptors_at_start[] = {token_job.Descriptors(), tls_job.Descriptors(),
                                      own_job.Descriptors(), sealed_job.Descriptors()};
  const Verdicts warm_up = round(tries);  // what gRPC and malloc keep once, they take here
  const int descriptors[] = {token_job.DescriptorsAtRest(descriptors_at_start[0]),
                             tls_job.DescriptorsAtRest(descriptors_at_start[1]),
                             own_job.DescriptorsAtRest(descriptors_at_start[2]),
                             sealed_job.DescriptorsAtRest(descriptors_at_start[3])};
  const long rss[] = {token_job.RssKib(), tls_job.RssKib(), own_job.RssKib(), sealed_job.RssKib()};
  const Verdicts verdicts = round(tries);

  bool well = warm_up.Print();
  std::printf("---- again (seed %llu)\n", static_cast<unsigned long long>(seed));
  well = verdicts.Print() && well;
  const auto compare = [&](const char* name, LiveJob& job, int index) {
    const int now = job.DescriptorsAtRest(descriptors_at_start[index]);
    const long growth = job.RssKib() - rss[index];
    const std::string log = job.Log();
    const auto lines = std::count(log.begin(), log.end(), '\n');
    std::printf(
        "%s: descriptors %d at first, %d, %d; memory %ld KiB, then %+ld KiB; %ld lines of log\n",
        name, descriptors_at_start[index], descriptors[index], now, rss[index], growth,
        static_cast<long>(lines));
    well = well && descriptors[index] <= descriptors_at_start[index] &&
           now <= descriptors_at_start[index] && growth <= kMaxGrowthKib && lines <= kMaxLogLines;
  };
  compare("token", token_job, 0);
  compare("mTLS", tls_job, 1);
  compare("loopback", own_job, 2);
  compare("beyond loopback", sealed_job, 3);
  const bool unaffected = token_job.EndsWell() & tls_job.EndsWell() & own_job.EndsWell() &
                          sealed_job.EndsWell() & brief_job.EndsWell();
  std::printf("the jobs: %s\n", unaffected ? "unaffected" : "AFFECTED");
  return well && unaffected && renewed ? 0 : 1;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  int tries = 500;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--tries") == 0) tries = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  try {
    return ddprun::Run(tries, seed);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
