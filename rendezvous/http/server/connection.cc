#include "rendezvous/http/server/connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/measures/refusal_reasons.h"
#include "rendezvous/http/server/response_text.h"

namespace ddprun::http {
namespace {

constexpr std::size_t kMostWrittenAtOnce = 64 << 10;  // within ServerOptions::write_timeout
constexpr std::chrono::seconds kLinger(1);

std::int64_t UnixSeconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

using Address = boost::asio::ip::address;

// Converts ::ffff:127.0.0.1, as a dual-stack socket reports it, to 127.0.0.1.
Address WithoutMapping(const Address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
}

}  // namespace

Connection::Connection(const Site* site, boost::asio::io_context* io,
                       std::unique_ptr<Transport> transport)
    : site_(site),
      transport_(std::move(transport)),
      reader_({site->options.max_header, site->options.max_body}),
      since_(Clock::now()),
      deadline_(*io),
      write_deadline_(*io) {
  Transport::Error failed;
  const auto remote = transport_->socket().remote_endpoint(failed);
  const auto local = transport_->socket().local_endpoint(failed);
  const Address from = WithoutMapping(remote.address());
  const std::string host = from.to_string();
  peer_ = absl::StrCat(from.is_v6() ? absl::StrCat("[", host, "]") : host, ":", remote.port());
  loopback_ = !failed && from.is_loopback() && WithoutMapping(local.address()).is_loopback();
}

void Connection::Start() {
  Arm(&deadline_, site_->options.header_timeout);
  transport_->Handshake([self = shared_from_this()](Transport::Error error) {
    if (self->phase_ != Phase::kHandshake) return;
    if (error) return self->Abort(refusal::kHttpTlsHandshake, error.message());
    self->phase_ = Phase::kReading;
    self->Read();
  });
}

std::optional<Connection::Clock::time_point> Connection::waiting_since() const {
  if (phase_ != Phase::kHandshake && phase_ != Phase::kReading) return std::nullopt;
  return since_;
}

// ---- input ----

void Connection::AwaitRequest() {
  phase_ = Phase::kReading;
  since_ = Clock::now();
  Arm(&deadline_, reader_.begun() ? site_->options.header_timeout : site_->options.idle_timeout);
  Judge(reader_.Take(""));
}

void Connection::Read() {
  if (reading_ || half_closed_ || phase_ == Phase::kEnded) return;
  reading_ = true;
  transport_->Read(input_.data(), input_.size(),
                   [self = shared_from_this()](Transport::Error error, std::size_t size) {
                     self->reading_ = false;
                     self->OnRead(!error, std::string_view(self->input_.data(), size));
                   });
}

void Connection::OnRead(bool ok, std::string_view data) {
  if (phase_ == Phase::kEnded) return;
  if (!ok) return OnEnd();
  switch (phase_) {
    case Phase::kReading: {
      if (!reader_.begun()) Arm(&deadline_, site_->options.header_timeout);
      Judge(reader_.Take(data));
      return;
    }
    case Phase::kHandling:
    case Phase::kWriting:
      if (!reader_.Keep(data)) return Abort(refusal::kHttpTooLarge, "too much beside a request");
      break;
    default:  // streaming or lingering: input is ignored
      break;
  }
  Read();
}

void Connection::OnEnd() {
  half_closed_ = true;
  const bool answers = phase_ == Phase::kHandling || phase_ == Phase::kWriting;
  if (!answers) return End();
  keep_alive_ = false;
}

void Connection::Judge(RequestReader::State state) {
  switch (state) {
    case RequestReader::State::kMore:
      return half_closed_ ? End() : Read();
    case RequestReader::State::kDone:
      return Dispatch();
    case RequestReader::State::kBad:
      return Refuse(reader_.bad_status(),
                    reader_.too_large() ? refusal::kHttpTooLarge : refusal::kHttpMalformed,
                    reader_.bad_text());
  }
}

void Connection::Dispatch() {
  Request request = reader_.Release(&keep_alive_);
  without_body_ = request.method == "HEAD";
  if (!site_->hosts.Accepts(request.Header("host"))) {
    return Refuse(421, refusal::kHttpForeignHost,
                  "this server has no such name; --http-host adds one");
  }
  if (site_->closing) return RefuseWith(503, "shutting down");
  Disarm(&deadline_);
  phase_ = Phase::kHandling;
  request.peer = peer_;
  request.loopback = loopback_;
  request.tls = transport_->tls();
  site_->handler(
      std::move(request),
      std::make_shared<Exchange>(site_->mailbox, std::weak_ptr<Answerable>(shared_from_this()),
                                 site_->options.max_unsent));
  Read();
}

void Connection::Refuse(int status, const char* reason, const std::string& text) {
  CountRefusal(reason, text);
  RefuseWith(status, text);
}

void Connection::RefuseWith(int status, const std::string& text) {
  keep_alive_ = false;
  phase_ = Phase::kHandling;
  Answer({.status = status, .body = text + "\n"});
}

// ---- output ----

void Connection::Answer(const Response& response) {
  if (phase_ != Phase::kHandling) return;
  if (site_->closing) keep_alive_ = false;
  phase_ = Phase::kWriting;
  last_piece_ = true;
  Push(std::make_shared<const std::string>(
      ResponseText(response, {keep_alive_, without_body_, BodyEnd::kLength}, UnixSeconds())));
}

void Connection::Open(std::shared_ptr<OpenStream> stream, const Response& head) {
  if (phase_ != Phase::kHandling || half_closed_ || site_->closing) {
    stream->Ended();
    return End();
  }
  phase_ = Phase::kStreaming;
  last_piece_ = without_body_;
  stream_ = std::move(stream);
  auto text = std::make_shared<const std::string>(
      ResponseText(head, {false, without_body_, BodyEnd::kClose}, UnixSeconds()));
  stream_->HeadWaits(text->size());
  Push(std::move(text));
}

void Connection::EndStream() {
  if (phase_ != Phase::kStreaming) return;
  last_piece_ = true;
  if (outbox_.empty()) OnAllWritten();
}

void Connection::Push(Stream::Piece piece) {
  if (phase_ != Phase::kWriting && phase_ != Phase::kStreaming) return;
  outbox_.push_back(std::move(piece));
  WriteNext();
}

void Connection::WriteNext() {
  if (writing_ || outbox_.empty()) return;
  writing_ = true;
  Arm(&write_deadline_, site_->options.write_timeout);
  const std::string_view rest = std::string_view(*outbox_.front()).substr(written_);
  transport_->Write(rest.substr(0, kMostWrittenAtOnce),
                    [self = shared_from_this()](Transport::Error error, std::size_t bytes) {
                      self->writing_ = false;
                      self->OnWritten(!error, bytes);
                    });
}

void Connection::OnWritten(bool ok, std::size_t bytes) {
  if (phase_ == Phase::kEnded) return;
  if (!ok) return End();
  Disarm(&write_deadline_);
  written_ += bytes;
  if (written_ >= outbox_.front()->size()) {
    outbox_.pop_front();
    written_ = 0;
  }
  if (stream_ != nullptr) stream_->Sent(bytes);
  if (outbox_.empty()) {
    OnAllWritten();
  } else {
    WriteNext();
  }
}

void Connection::OnAllWritten() {
  if (!last_piece_) return;
  last_piece_ = false;
  if (phase_ == Phase::kWriting && keep_alive_ && !half_closed_ && !site_->closing) {
    AwaitRequest();
  } else {
    Linger();
  }
}

// ---- its end ----

void Connection::CountRefusal(const char* reason, std::string_view why) const {
  if (site_->options.refused) {
    site_->options.refused(reason, absl::StrCat("http: ", peer_, ": ", std::string(why)));
  }
}

void Connection::Abort(const char* reason, std::string_view why) {
  if (phase_ == Phase::kEnded) return;
  CountRefusal(reason, why);
  End();
}

void Connection::CutOff() { Abort(refusal::kHttpSlowReader, "it reads too slowly"); }

void Connection::Finish() {
  const bool busy = phase_ == Phase::kHandling || !outbox_.empty() || phase_ == Phase::kLingering;
  if (!busy) return phase_ == Phase::kStreaming ? Linger() : End();
  if (phase_ == Phase::kStreaming) last_piece_ = true;
}

void Connection::Linger() {
  if (phase_ == Phase::kEnded) return;
  phase_ = Phase::kLingering;
  Arm(&deadline_, kLinger);
  transport_->EndWriting([self = shared_from_this()] {});
  if (half_closed_) return End();
  Read();
}

void Connection::End() {
  if (phase_ == Phase::kEnded) return;
  phase_ = Phase::kEnded;
  Disarm(&deadline_);
  Disarm(&write_deadline_);
  transport_->Close();
  if (stream_ != nullptr) stream_->Ended();
  site_->ended(this);
}

void Connection::Arm(Timer* timer, std::chrono::milliseconds limit) {
  timer->expires_after(limit);
  timer->async_wait([self = shared_from_this(), timer](Transport::Error error) {
    // The timer may have been set again or disarmed after this call was queued.
    if (!error && timer->expiry() <= Clock::now()) self->OnLate(timer);
  });
}

void Connection::Disarm(Timer* timer) { timer->expires_at(Clock::time_point::max()); }

void Connection::OnLate(const Timer* timer) {
  if (timer == &write_deadline_) return CutOff();
  if (phase_ == Phase::kHandshake) return Abort(refusal::kHttpTlsHandshake, "it takes too long");
  if (phase_ != Phase::kReading || !reader_.begun()) return End();
  Refuse(408, refusal::kHttpTooSlow,
         absl::StrCat("the request was not complete within ", site_->options.header_timeout.count(),
                      " ms"));
}

}  // namespace ddprun::http
