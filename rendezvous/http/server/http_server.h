// HttpServer: HTTP/1.1 for browsers and scrapers, on a thread of its own. It knows nothing of jobs.
//
//     auto server = HttpServer::Start(
//         {.listen = "127.0.0.1:0"}, [](Request request, std::shared_ptr<Responder> responder) {
//           responder->Send({.body = "ok\n"});
//         });
//     if (!server.ok()) ...  // "cannot listen on 127.0.0.1:0: ..."
//     (*server)->port();
//
// It answers some requests without the handler: malformed requests, too large ones, requests with a
// foreign name in the Host header (DNS rebinding), and requests that are incomplete after
// header_timeout. If the limit of connections is reached, a new connection replaces the connection
// that has waited longest for a request; if all are busy, the new one is closed.
//
// On a loopback address it serves plain HTTP unless it has certificate files; for other addresses
// see ServerOptions::self_made_certificate.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_HTTP_SERVER_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_HTTP_SERVER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/http/server/message.h"
#include "rendezvous/http/server/responder.h"

namespace ddprun::http {

// Called on the server's thread; must not block. Any thread may answer, also later.
using Handler = std::function<void(Request, std::shared_ptr<Responder>)>;

// `reason`: one of kRefusalReasons (rendezvous/core/measures/refusal_reasons.h). `detail`: who and
// why, for a log.
using OnRefused = std::function<void(std::string_view reason, const std::string& detail)>;

struct ServerOptions {
  std::string listen{};  // "HOST:PORT" or "[IPV6]:PORT"; port 0: any free one
  // PEM files, read again when they change; both empty: none.
  std::string certificate_file{};
  std::string key_file{};
  // Without these files: use TLS on addresses other than loopback, with a certificate made at the
  // start. False: plain HTTP on all addresses, for servers without secrets and credentials.
  bool self_made_certificate = true;
  // Accepted Host headers besides addresses, localhost, the host of `listen` and the name of this
  // machine.
  std::vector<std::string> hosts{};
  // Also limited to an eighth of RLIMIT_NOFILE, or to 16 if that is more.
  std::size_t max_connections = 1024;
  std::size_t max_header = 16 << 10;   // bytes
  std::size_t max_body = 64 << 10;     // bytes
  std::size_t max_unsent = 256 << 10;  // unsent bytes of a Stream; see Stream::Write
  // Time limit for a complete request.
  std::chrono::milliseconds header_timeout = std::chrono::seconds(10);
  std::chrono::milliseconds idle_timeout = std::chrono::seconds(60);  // until the next request
  // Time limit for each write: the client must take its bytes, at most 64 KiB.
  std::chrono::milliseconds write_timeout = std::chrono::seconds(30);
  // Messages for people: a new certificate is in use, or cannot be used. Called from any thread;
  // must not block; may be empty.
  std::function<void(const std::string&)> log{};
  // Called on the server's thread for each connection and request that the server itself refuses.
  // Must not block; may be empty.
  OnRefused refused{};
};

class HttpServer {
 public:
  // Returns once connections are accepted. Errors name the address or file, and the reason.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(ServerOptions options, Handler handler);

  // Shuts down.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  bool tls() const;
  // SHA-256 of the current certificate, 64 hexadecimal digits; "" without TLS. Any thread.
  std::string certificate_sha256() const;

  // Closes each connection when its answer is sent, at the latest after a second. When it returns,
  // the handler does not run and is not called again. Idempotent. Must not be called on the
  // server's thread.
  void Shutdown();

 private:
  class Core;
  explicit HttpServer(std::unique_ptr<Core> core);
  const std::unique_ptr<Core> core_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_HTTP_SERVER_H_
