// View: one view of state_feed.h with its viewers. It says when the view is to be made again, and
// sends the view to the viewers. Time comes in as an argument. Used by one thread.
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

// Identifies a view.
struct ViewKey {
  std::string owner;  // owner of the visible jobs; empty: all jobs
  std::string job;    // empty: the list
  bool redacted = false;

  auto operator<=>(const ViewKey&) const = default;
};

// "event: NAME\ndata: DATA\n\n"; `data` is one line.
Stream::Piece SseEvent(const std::string& name, const std::string& data);

class View {
 public:
  static constexpr std::chrono::seconds kInterval{1};
  // The interval of sending if only ages have changed.
  static constexpr std::chrono::seconds kIdleInterval{5};

  // `id`: unique for each viewer.
  void Add(std::uint64_t id, std::shared_ptr<Stream> stream, SessionEnd until);
  void Drop(std::uint64_t id);
  // Drops the viewers who read too slowly, and ends those whose session is over.
  void DropEnded(TimePoint now);
  std::size_t size() const { return viewers_.size(); }

  // True if the view must be made now.
  bool due(TimePoint now) const { return !asked_ && now >= next_; }
  TimePoint next() const { return asked_ ? TimePoint::max() : next_; }
  void SetAsked() { asked_ = true; }
  // The last version if it is no older than its interval; else null.
  Stream::Piece Fresh(TimePoint now) const { return now < next_ ? newest_ : nullptr; }
  // The same, as JSON instead of an event.
  std::optional<std::string> FreshJson(TimePoint now) const;

  // Takes a new version. `cost`: the time that making it took. Sends it if more than ages has
  // changed, or kIdleInterval after the last sending.
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
  std::string sent_;  // the last sent version, without ages
  TimePoint sent_at_{};
  TimePoint next_{};
  bool asked_ = false;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_VIEW_H_
