// View: one thing that several viewers look at, and when it is to be sent anew. Time as an
// argument; of one thread.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_VIEW_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_VIEW_H_

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/types.h"
#include "rendezvous/http/access/session_end.h"
#include "rendezvous/http/page/pace.h"
#include "rendezvous/http/server/responder.h"

namespace ddprun::http {

// Who sees what.
struct ViewKey {
  std::string owner;  // whose jobs; empty: everybody's
  std::string job;    // empty: the list
  bool redacted = false;

  auto operator<=>(const ViewKey&) const = default;
};

// "event: NAME\ndata: DATA\n\n"; `data` is one line.
Stream::Piece SseEvent(const std::string& name, const std::string& data);

class View {
 public:
  static constexpr std::chrono::seconds kInterval{1};
  // With nothing but its ages changed.
  static constexpr std::chrono::seconds kIdleInterval{5};

  // `id`: another one for each viewer.
  void Add(std::uint64_t id, std::shared_ptr<Stream> stream, SessionEnd until);
  void Drop(std::uint64_t id);
  // Drops those who read too slowly, and ends those whose session is over.
  void DropEnded(TimePoint now);
  std::size_t size() const { return viewers_.size(); }

  // It is time to make it.
  bool due(TimePoint now) const { return !asked_ && now >= next_; }
  TimePoint next() const { return asked_ ? TimePoint::max() : next_; }
  void SetAsked() { asked_ = true; }
  // As it was made last, where that is no older than its interval; else null.
  Stream::Piece Fresh(TimePoint now) const { return now < next_ ? newest_ : nullptr; }
  // The same as it was before it became an event.
  std::optional<std::string> FreshJson(TimePoint now) const;

  // What was made, in `cost` since it was asked for. Sends it where it has changed.
  void Take(const std::string& event, const nlohmann::ordered_json& json, Duration cost,
            TimePoint now);
  void Send(const Stream::Piece& piece);
  void End(const Stream::Piece& last);

 private:
  struct Viewer {
    std::uint64_t id;
    std::shared_ptr<Stream> stream;
    SessionEnd until;
    Pace pace{};
    bool gone = false;
  };

  std::vector<Viewer> viewers_;
  Stream::Piece newest_;
  std::string sent_;  // without its ages
  TimePoint sent_at_{};
  TimePoint next_{};  // by the interval, and by what it costs
  bool asked_ = false;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_VIEW_H_
