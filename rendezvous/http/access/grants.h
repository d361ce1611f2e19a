// Grants: secrets that were given out, each with what it allows and until when. One object for the
// one-time codes of links, one for sessions.
//
// It keeps the SHA-256 of a secret, not the secret. Bounded: an owner who has too many loses his
// oldest one, and nobody else's; where all have too many, the oldest of all goes. Time and
// randomness come in as arguments. Not thread-safe.
#ifndef DDPRUN_RENDEZVOUS_HTTP_ACCESS_GRANTS_H_
#define DDPRUN_RENDEZVOUS_HTTP_ACCESS_GRANTS_H_

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "rendezvous/core/types.h"
#include "rendezvous/http/access/session_end.h"

namespace ddprun::http {

struct Grant {
  std::string owner{};  // whose jobs; empty: everybody's
  std::string csrf{};   // of a session; what its cookie alone does not show
  SessionEnd until{};
};

class Grants {
 public:
  Grants(std::size_t most_of_owner, std::size_t most)
      : most_of_owner_(most_of_owner), most_(most) {}

  void Add(const std::string& secret, Grant grant, TimePoint now);
  // What it allows, where it is one of ours and its time is not over.
  std::optional<Grant> Find(const std::string& secret, TimePoint now) const;
  // The same, and it is used up.
  std::optional<Grant> Take(const std::string& secret, TimePoint now);

  std::size_t size() const { return oldest_first_.size(); }

 private:
  struct Entry {
    std::string hash;
    Grant grant;
  };
  using Entries = std::list<Entry>;
  void Erase(Entries::iterator entry);

  const std::size_t most_of_owner_;
  const std::size_t most_;
  Entries oldest_first_;
  std::unordered_map<std::string, Entries::iterator> by_hash_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_ACCESS_GRANTS_H_
