#include "rendezvous/http/server/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ddprun::http {
namespace {

using Tcp = boost::asio::ip::tcp;
using Error = Transport::Error;

constexpr unsigned kUnacknowledgedMs = 30'000;

void CloseSocket(Tcp::socket& socket) {
  Error ignored;
  socket.close(ignored);
}

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(Tcp::socket socket) : socket_(std::move(socket)) {}

  void Handshake(std::function<void(Error)> done) override { done(Error()); }
  void Read(char* data, std::size_t size, Done done) override {
    socket_.async_read_some(boost::asio::buffer(data, size), std::move(done));
  }
  void Write(std::string_view data, Done done) override {
    boost::asio::async_write(socket_, boost::asio::buffer(data.data(), data.size()),
                             std::move(done));
  }
  void EndWriting(std::function<void()> done) override {
    Error ignored;
    socket_.shutdown(Tcp::socket::shutdown_send, ignored);
    done();
  }
  void Close() override { CloseSocket(socket_); }
  const Tcp::socket& socket() const override { return socket_; }
  bool tls() const override { return false; }

 private:
  Tcp::socket socket_;
};

class TlsTransport final : public Transport {
 public:
  TlsTransport(Tcp::socket socket, std::shared_ptr<TlsContext> context)
      : context_(std::move(context)), stream_(std::move(socket), *context_) {}

  void Handshake(std::function<void(Error)> done) override {
    stream_.async_handshake(boost::asio::ssl::stream_base::server, std::move(done));
  }
  void Read(char* data, std::size_t size, Done done) override {
    stream_.async_read_some(boost::asio::buffer(data, size), std::move(done));
  }
  void Write(std::string_view data, Done done) override {
    boost::asio::async_write(stream_, boost::asio::buffer(data.data(), data.size()),
                             std::move(done));
  }
  void EndWriting(std::function<void()> done) override {
    stream_.async_shutdown([done = std::move(done)](Error) { done(); });
  }
  void Close() override { CloseSocket(stream_.next_layer()); }
  const Tcp::socket& socket() const override { return stream_.next_layer(); }
  bool tls() const override { return true; }

 private:
  const std::shared_ptr<TlsContext> context_;  // outlives stream_
  boost::asio::ssl::stream<Tcp::socket> stream_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<TlsContext>> MakeTlsContext(const auth::TlsPem& pem) {
  auto context = std::make_shared<TlsContext>(TlsContext::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  Error error;
  context->use_certificate_chain(boost::asio::buffer(pem.cert), error);
  if (!error) context->use_private_key(boost::asio::buffer(pem.key), TlsContext::pem, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("TLS: ", error.message()));
  return context;
}

std::unique_ptr<Transport> MakeTransport(Tcp::socket socket, std::shared_ptr<TlsContext> tls) {
  Error ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
  // Ends the connection to a peer that has vanished, such as a phone out of range: it no longer
  // acknowledges data.
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMs,
             sizeof kUnacknowledgedMs);
  if (tls == nullptr) return std::make_unique<PlainTransport>(std::move(socket));
  return std::make_unique<TlsTransport>(std::move(socket), std::move(tls));
}

}  // namespace ddprun::http
