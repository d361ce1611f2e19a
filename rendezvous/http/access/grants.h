// Grants: secrets that were given out, each with its permission and its end. One Grants object
// holds the one-time codes of links, another holds the sessions.
//
// It stores the SHA-256 of a secret, not the secret. Bounded: if an owner has too many grants, the
// oldest grant of that owner is dropped; if there are too many in all, the oldest of all. Time
// comes in as an argument. Not thread-safe.
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
  std::string owner{};  // owner of the visible jobs; empty: all jobs
  std::string csrf{};   // the session's CSRF token
  SessionEnd until{};
};

class Grants {
 public:
  Grants(std::size_t most_of_owner, std::size_t most)
      : most_of_owner_(most_of_owner), most_(most) {}

  void Add(const std::string& secret, Grant grant, TimePoint now);
  // The grant of this secret; nullopt if the secret is unknown or the grant is over.
  std::optional<Grant> Find(const std::string& secret, TimePoint now) const;
  // The same, and removes the grant.
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
