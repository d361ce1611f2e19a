// HttpServer: HTTP/1.1 for people's browsers and for scrapers, on one thread of its own. It knows
// nothing of jobs.
//
//     auto server = HttpServer::Start(
//         {.listen = "127.0.0.1:0"}, [](Request request, std::shared_ptr<Responder> responder) {
//           responder->Send({.body = "ok\n"});
//         });
//     if (!server.ok()) ...  // "cannot listen on 127.0.0.1:80: permission denied"
//     (*server)->port();
//
// It answers by itself, without the handler: a request that is malformed or too large, one whose
// Host header names somebody else (DNS rebinding), and one that is not there in time. Where all
// connections are taken, the one that has waited longest for its next request makes room.
//
// On a loopback address it speaks HTTP unless it was given a certificate; on others see
// ServerOptions::self_made_certificate.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_HTTP_SERVER_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_HTTP_SERVER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/http/server/message.h"
#include "rendezvous/http/server/responder.h"

namespace ddprun::http {

// Called on the server's thread; must not block. The answer may be given later, by any thread.
using Handler = std::function<void(Request, std::shared_ptr<Responder>)>;

struct ServerOptions {
  std::string listen{};  // "HOST:PORT" or "[IPV6]:PORT"; port 0: any free one
  // PEM files, followed when they change; both empty: none.
  std::string certificate_file{};
  std::string key_file{};
  // Without these files, off loopback: TLS with a certificate made at the start. False: HTTP there
  // too, which is for who has nothing to hide and asks nobody for a credential.
  bool self_made_certificate = true;
  // Host headers that are accepted, beside addresses, localhost, the host of `listen` and the name
  // of this machine.
  std::vector<std::string> hosts{};
  std::size_t max_connections = 1024;
  std::size_t max_header = 16 << 10;   // bytes
  std::size_t max_body = 64 << 10;     // bytes
  std::size_t max_unsent = 256 << 10;  // bytes of a Stream, beside the piece that comes first
  std::chrono::milliseconds header_timeout = std::chrono::seconds(10);  // for a whole request
  std::chrono::milliseconds idle_timeout = std::chrono::seconds(60);    // until the next one
  std::chrono::milliseconds write_timeout =
      std::chrono::seconds(30);  // a client that reads nothing
  // What a person should know: a certificate that was taken up, or cannot be. Must not block. Any
  // thread; may be empty.
  std::function<void(const std::string&)> log{};
};

class HttpServer {
 public:
  // Returns when connections are accepted. Errors say which address or file, and why.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(ServerOptions options, Handler handler);

  // Shuts down.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  bool tls() const;
  // Of the certificate it speaks TLS with now, 64 hexadecimal digits; "" without TLS. Any thread.
  std::string certificate_sha256() const;

  // Closes what is open, after what was written is sent or a second has passed. When it returns the
  // handler is not running and is not called any more. Idempotent; not from the handler.
  void Shutdown();

 private:
  class Core;
  explicit HttpServer(std::unique_ptr<Core> core);
  const std::unique_ptr<Core> core_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_HTTP_SERVER_H_
