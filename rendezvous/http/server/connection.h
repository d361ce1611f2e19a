// Connection: one client, from its handshake to its end. Internal to this folder.
//
//     Handshake ─▶ Reading ─▶ Handling ─┬─▶ Writing ─┬─▶ Lingering ─▶ Ended
//                     ▲                 └─▶ Streaming┘
//                     └──────────────────────┘ (the client wants to send another request)
//
// While a request is handled it reads on, to hear that the client has gone. Lingering gives the
// client a second to read what was sent: a socket that is closed with bytes unread tells the kernel
// to drop the answer.
//
// Of the server's thread. Pending operations keep it alive.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_CONNECTION_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_CONNECTION_H_

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/http/server/exchange.h"
#include "rendezvous/http/server/host_names.h"
#include "rendezvous/http/server/http_server.h"
#include "rendezvous/http/server/request_reader.h"
#include "rendezvous/http/server/transport.h"

namespace ddprun::http {

class Connection;

// What all connections of a server share; outlives them.
struct Site {
  ServerOptions options;
  Handler handler;
  HostNames hosts;
  std::shared_ptr<Mailbox> mailbox;
  std::function<void(Connection*)> ended;  // the last that is heard of it
  bool closing = false;
};

class Connection final : public Answerable, public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(const Site* site, boost::asio::io_context* io, std::unique_ptr<Transport> transport);

  void Start();
  // Ends it once what is being written is sent; at once where nothing is.
  void Finish();

  // Since when it waits for a request that is not complete; nothing while one is answered.
  std::optional<Clock::time_point> waiting_since() const;

  void Answer(const Response& response) override;
  void Open(std::shared_ptr<OpenStream> stream, const Response& head) override;
  void Push(Stream::Piece piece) override;
  void EndStream() override;
  void Abort() override { End(); }

 private:
  enum class Phase { kHandshake, kReading, kHandling, kWriting, kStreaming, kLingering, kEnded };
  using Timer = boost::asio::steady_timer;

  void AwaitRequest();
  void Read();
  void OnRead(bool ok, std::string_view data);
  void OnEnd();  // of what the client sends
  void Judge(RequestReader::State state);
  void Dispatch();
  // An answer of our own, after which the connection ends.
  void Refuse(int status, const std::string& text);
  void WriteNext();
  void OnWritten(bool ok, std::size_t bytes);
  void OnAllWritten();
  void Linger();
  void End();
  // Calls OnLate after `limit`, unless the timer is set anew or disarmed before.
  void Arm(Timer* timer, std::chrono::milliseconds limit);
  static void Disarm(Timer* timer);
  void OnLate(const Timer* timer);

  const Site* const site_;
  const std::unique_ptr<Transport> transport_;
  std::string peer_;
  bool loopback_ = false;
  RequestReader reader_;
  std::array<char, 8192> input_{};
  Phase phase_ = Phase::kHandshake;
  Clock::time_point since_;  // in kHandshake or kReading
  Timer deadline_;           // of the phase
  Timer write_deadline_;
  bool keep_alive_ = false;    // after the answer
  bool without_body_ = false;  // the request was HEAD
  bool reading_ = false;       // an operation is under way
  bool half_closed_ = false;   // by the client, which may still read
  std::deque<Stream::Piece> outbox_;
  std::size_t written_ = 0;  // of outbox_'s first piece
  bool writing_ = false;     // an operation is under way
  bool last_piece_ = false;  // nothing follows what is in outbox_
  std::shared_ptr<OpenStream> stream_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_CONNECTION_H_
