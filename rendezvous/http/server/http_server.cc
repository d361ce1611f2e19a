#include "rendezvous/http/server/http_server.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/tls/identity.h"
#include "rendezvous/auth/tls/watch.h"
#include "rendezvous/core/measures/refusal_reasons.h"
#include "rendezvous/http/server/connection.h"

namespace ddprun::http {
namespace {

using Tcp = boost::asio::ip::tcp;
using Error = boost::system::error_code;

constexpr std::chrono::milliseconds kAcceptRetry(100);  // when descriptors have run out
constexpr std::chrono::seconds kShutdownGrace(1);

absl::Status CannotListen(const std::string& listen, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", listen, ": ", why));
}

// "HOST:PORT" as two texts; the host without brackets.
std::pair<std::string, std::string> SplitEndpoint(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos) return {listen, ""};
  return {HostOf(listen), listen.substr(colon + 1)};
}

std::string MachineName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// An eighth of the descriptors: other parts of the process need the rest.
std::size_t MostConnections(std::size_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  return std::min<std::size_t>(wanted, std::max<rlim_t>(limit.rlim_cur / 8, 16));
}

// Asio opens descriptors without O_CLOEXEC.
void CloseOnExec(int fd) { fcntl(fd, F_SETFD, FD_CLOEXEC); }

// Starts a thread with all signals blocked: signals belong to the main thread.
template <class Function>
std::thread StartThread(Function run) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), "ddprun-http");
  return thread;
}

}  // namespace

class HttpServer::Core {
 public:
  Core(ServerOptions options, Handler handler);
  ~Core() { Shutdown(); }

  absl::Status Listen();
  absl::Status LoadCertificate();
  void Run();
  void Shutdown();

  int port() const { return port_; }
  bool tls() const { return identity_ != nullptr; }
  std::string certificate_sha256() const;

 private:
  void Accept();
  void OnAccepted(Tcp::socket socket);
  bool MakeRoom();
  // With the current certificate; null without TLS.
  std::shared_ptr<TlsContext> CurrentTls();
  void BeginShutdown();

  boost::asio::io_context io_{1};
  Site site_;
  Tcp::acceptor acceptor_{io_};
  boost::asio::steady_timer retry_{io_};
  boost::asio::steady_timer grace_{io_};
  int port_ = 0;
  bool loopback_ = false;  // it listens only on loopback
  std::shared_ptr<auth::TlsIdentity> identity_;
  std::unique_ptr<auth::TlsWatch> watch_;
  // Used by the server's thread only.
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::shared_ptr<const auth::TlsPem> pem_;  // the content of tls_context_
  std::shared_ptr<TlsContext> tls_context_;
  std::mutex shutdown_mutex_;  // held while thread_ is joined
  std::thread thread_;
};

HttpServer::Core::Core(ServerOptions options, Handler handler)
    : site_{std::move(options),
            std::move(handler),
            HostNames(std::vector<std::string>()),
            nullptr,
            {},
            false} {
  site_.options.max_connections = MostConnections(site_.options.max_connections);
  std::vector<std::string> names = site_.options.hosts;
  names.push_back(SplitEndpoint(site_.options.listen).first);
  names.push_back(MachineName());
  site_.hosts = HostNames(names);
  site_.mailbox = std::make_shared<Mailbox>(&io_);
  site_.ended = [this](Connection* connection) {
    connections_.erase(connection);
    if (site_.closing && connections_.empty()) io_.stop();
  };
}

absl::Status HttpServer::Core::Listen() {
  const auto [host, port] = SplitEndpoint(site_.options.listen);
  Error error;
  Tcp::resolver resolver(io_);
  const auto found = resolver.resolve(host, port, Tcp::resolver::numeric_service, error);
  if (error || found.empty()) return CannotListen(site_.options.listen, error.message());
  Tcp::endpoint endpoint = found.begin()->endpoint();
  for (const auto& entry : found) {
    // A name may have IPv4 and IPv6 addresses, as localhost does; IPv4 is preferred.
    if (entry.endpoint().address().is_v4()) endpoint = entry.endpoint();
  }
  acceptor_.open(endpoint.protocol(), error);
  if (!error) CloseOnExec(acceptor_.native_handle());
  if (!error) acceptor_.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(boost::asio::socket_base::max_listen_connections, error);
  if (error) return CannotListen(site_.options.listen, error.message());
  port_ = acceptor_.local_endpoint().port();
  loopback_ = endpoint.address().is_loopback();
  return absl::OkStatus();
}

absl::Status HttpServer::Core::LoadCertificate() {
  const ServerOptions& options = site_.options;
  if (!options.certificate_file.empty()) {
    auto loaded = auth::TlsIdentity::Load({"", options.certificate_file, options.key_file},
                                          std::chrono::system_clock::now());
    if (!loaded.ok()) return loaded.status();
    identity_ = *std::move(loaded);
    watch_ = std::make_unique<auth::TlsWatch>(identity_,
                                              [log = options.log](bool, const std::string& text) {
                                                if (log) log(absl::StrCat("http: ", text));
                                              });
  } else if (!loopback_ && options.self_made_certificate) {
    std::vector<std::string> names = options.hosts;
    names.push_back(MachineName());
    const std::string host = SplitEndpoint(options.listen).first;
    const bool any = acceptor_.local_endpoint().address().is_unspecified();
    if (!any && !host.empty()) names.push_back(host);
    identity_ = std::make_shared<auth::TlsIdentity>(auth::MakeSelfSigned("ddprun", names));
  }
  if (identity_ == nullptr) return absl::OkStatus();
  pem_ = identity_->current();
  auto context = MakeTlsContext(*pem_);
  if (!context.ok()) return context.status();
  tls_context_ = *std::move(context);
  return absl::OkStatus();
}

std::string HttpServer::Core::certificate_sha256() const {
  return identity_ == nullptr ? "" : absl::BytesToHexString(identity_->shown().front());
}

void HttpServer::Core::Run() {
  Accept();
  thread_ = StartThread([this] {
    const auto work = boost::asio::make_work_guard(io_);
    io_.run();
  });
}

void HttpServer::Core::Accept() {
  acceptor_.async_accept([this](Error error, Tcp::socket socket) {
    if (site_.closing) return;
    if (!error) {
      OnAccepted(std::move(socket));
      return Accept();
    }
    retry_.expires_after(kAcceptRetry);
    retry_.async_wait([this](Error cancelled) {
      if (!cancelled && !site_.closing) Accept();
    });
  });
}

void HttpServer::Core::OnAccepted(Tcp::socket socket) {
  CloseOnExec(socket.native_handle());
  if (connections_.size() >= site_.options.max_connections && !MakeRoom()) {
    if (site_.options.refused) {
      site_.options.refused(refusal::kHttpTooManyConnections, "http: all connections are busy");
    }
    return;
  }
  auto connection =
      std::make_shared<Connection>(&site_, &io_, MakeTransport(std::move(socket), CurrentTls()));
  connections_.emplace(connection.get(), connection);
  connection->Start();
}

bool HttpServer::Core::MakeRoom() {
  Connection* oldest = nullptr;
  for (const auto& [connection, owned] : connections_) {
    const auto since = connection->waiting_since();
    if (since && (oldest == nullptr || *since < *oldest->waiting_since())) oldest = connection;
  }
  if (oldest == nullptr) return false;
  oldest->Abort(refusal::kHttpTooManyConnections, "a new connection takes its place");
  return true;
}

std::shared_ptr<TlsContext> HttpServer::Core::CurrentTls() {
  if (identity_ == nullptr) return nullptr;
  auto pem = identity_->current();
  if (pem == pem_) return tls_context_;
  pem_ = std::move(pem);
  auto context = MakeTlsContext(*pem_);
  if (context.ok()) {
    tls_context_ = *std::move(context);
  } else if (site_.options.log) {
    site_.options.log(
        absl::StrCat("http: ", context.status().message(), "; the old certificate stays in use"));
  }
  return tls_context_;
}

void HttpServer::Core::Shutdown() {
  const std::lock_guard lock(shutdown_mutex_);
  if (thread_.joinable()) {
    site_.mailbox->Post([this] { BeginShutdown(); });
    thread_.join();
  }
  site_.mailbox->Close();
  // Ends the connections that did not end in time, and reports their end to their streams.
  while (!connections_.empty()) connections_.begin()->first->Abort();
  watch_.reset();
}

void HttpServer::Core::BeginShutdown() {
  site_.closing = true;
  Error ignored;
  acceptor_.close(ignored);
  retry_.cancel();
  if (connections_.empty()) return io_.stop();
  grace_.expires_after(kShutdownGrace);
  grace_.async_wait([this](Error) { io_.stop(); });
  const auto open = connections_;  // a copy, since Finish erases connections
  for (const auto& [connection, owned] : open) connection->Finish();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(ServerOptions options,
                                                              Handler handler) {
  auto core = std::make_unique<Core>(std::move(options), std::move(handler));
  if (absl::Status status = core->Listen(); !status.ok()) return status;
  if (absl::Status status = core->LoadCertificate(); !status.ok()) return status;
  core->Run();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(core)));
}

HttpServer::HttpServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
HttpServer::~HttpServer() { Shutdown(); }
int HttpServer::port() const { return core_->port(); }
bool HttpServer::tls() const { return core_->tls(); }
std::string HttpServer::certificate_sha256() const { return core_->certificate_sha256(); }
void HttpServer::Shutdown() { core_->Shutdown(); }

}  // namespace ddprun::http
