// Connection: one client, from its handshake to its end. Internal to this folder.
//
//     Handshake ─▶ Reading ─▶ Handling ─┬─▶ Writing ─┬─▶ Lingering ─▶ Ended
//                     ▲                 └─▶ Streaming┘
//                     └──────────────────────┘ (the client wants to send another request)
//
// While a request is handled, the connection continues to read, so that it notices when the client
// leaves. Lingering gives the client up to a second to read the answer: if a socket is closed with
// unread input, the kernel drops its unsent output.
//
// Used by the server's thread; after that thread's end by Shutdown. Pending operations keep the
// object alive.
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

// State that all connections of a server share. Outlives each connection's use of it.
struct Site {
  ServerOptions options;
  Handler handler;
  HostNames hosts;
  std::shared_ptr<Mailbox> mailbox;
  std::function<void(Connection*)> ended;  // the last call for a connection
  bool closing = false;
};

class Connection final : public Answerable, public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(const Site* site, boost::asio::io_context* io, std::unique_ptr<Transport> transport);

  void Start();
  // Ends the connection once the present answer is sent; of a stream, what is written so far. At
  // once if no request is being answered.
  void Finish();

  // When the wait for a complete request began; nullopt while a request is being answered.
  std::optional<Clock::time_point> waiting_since() const;

  void Answer(const Response& response) override;
  void Open(std::shared_ptr<OpenStream> stream, const Response& head) override;
  void Push(Stream::Piece piece) override;
  void EndStream() override;
  void CutOff() override;
  // Ends the connection at once.
  void Abort() { End(); }
  // The same, and counts a refusal for this reason.
  void Abort(const char* reason, std::string_view why);

 private:
  enum class Phase { kHandshake, kReading, kHandling, kWriting, kStreaming, kLingering, kEnded };
  using Timer = boost::asio::steady_timer;

  void AwaitRequest();
  void Read();
  void OnRead(bool ok, std::string_view data);
  void OnEnd();  // end of the client's input
  void Judge(RequestReader::State state);
  void Dispatch();
  // Answers without the handler, then ends the connection.
  void Refuse(int status, const char* reason, const std::string& text);
  void RefuseWith(int status, const std::string& text);  // without counting it
  void CountRefusal(const char* reason, std::string_view why) const;
  void WriteNext();
  void OnWritten(bool ok, std::size_t bytes);
  void OnAllWritten();
  void Linger();
  void End();
  // Calls OnLate after `limit`, unless the timer is set again or disarmed before.
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
  // Start of kHandshake or kReading.
  Clock::time_point since_;
  Timer deadline_;  // limit of the phase
  Timer write_deadline_;
  bool keep_alive_ = false;    // read another request after the answer
  bool without_body_ = false;  // the request was HEAD
  bool reading_ = false;       // an operation is under way
  bool half_closed_ = false;   // by the client, which may still read
  std::deque<Stream::Piece> outbox_;
  std::size_t written_ = 0;  // bytes of outbox_'s first piece
  bool writing_ = false;     // an operation is under way
  bool last_piece_ = false;  // nothing follows after outbox_
  std::shared_ptr<OpenStream> stream_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_CONNECTION_H_
