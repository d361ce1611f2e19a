// Transport: a connected socket, with TLS or without. Boost.Asio. Internal to this folder.
//
// Of the server's thread. Operations hold it alive by what their handlers hold.
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
  // One of each kind at a time; the bytes stay where they are until it is done.
  virtual void Read(char* data, std::size_t size, Done done) = 0;
  virtual void Write(std::string_view data, Done done) = 0;  // all of it
  // Tells the other side that nothing more comes. Once, after the last write; `done` is called at
  // the latest after Close.
  virtual void EndWriting(std::function<void()> done) = 0;
  // Operations that go on end with an error. Idempotent.
  virtual void Close() = 0;

  virtual const boost::asio::ip::tcp::socket& socket() const = 0;
  virtual bool tls() const = 0;
};

using TlsContext = boost::asio::ssl::context;

// For connections from now on. TLS 1.2 or newer.
absl::StatusOr<std::shared_ptr<TlsContext>> MakeTlsContext(const auth::TlsPem& pem);

// `tls` null: without. The context lives as long as the transport.
std::unique_ptr<Transport> MakeTransport(boost::asio::ip::tcp::socket socket,
                                         std::shared_ptr<TlsContext> tls);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_TRANSPORT_H_
