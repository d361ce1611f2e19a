// Transport: a connected socket, with TLS or without. Boost.Asio. Internal to this folder.
//
// Used as a Connection is. The handlers of pending operations keep it alive.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_TRANSPORT_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_TRANSPORT_H_

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rendezvous/auth/tls_files.h"

namespace ddprun::http {

class Transport {
 public:
  using Error = boost::system::error_code;
  using Done = std::function<void(Error, std::size_t)>;

  virtual ~Transport() = default;

  virtual void Handshake(std::function<void(Error)> done) = 0;
  // At most one Read and one Write at a time. The caller keeps the bytes in place until `done`.
  virtual void Read(char* data, std::size_t size, Done done) = 0;
  virtual void Write(std::string_view data, Done done) = 0;  // writes all of `data`
  // Tells the peer that no more data comes. Call it once, after the last write. Close also makes it
  // call `done`.
  virtual void EndWriting(std::function<void()> done) = 0;
  // Pending operations end with an error. Idempotent.
  virtual void Close() = 0;

  virtual const boost::asio::ip::tcp::socket& socket() const = 0;
  virtual bool tls() const = 0;
};

using TlsContext = boost::asio::ssl::context;

// For new connections. TLS 1.2 or newer.
absl::StatusOr<std::shared_ptr<TlsContext>> MakeTlsContext(const auth::TlsPem& pem);

// `tls`: null for no TLS. The context lives as long as the transport.
std::unique_ptr<Transport> MakeTransport(boost::asio::ip::tcp::socket socket,
                                         std::shared_ptr<TlsContext> tls);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_TRANSPORT_H_
