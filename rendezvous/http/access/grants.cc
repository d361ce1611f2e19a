#include "rendezvous/http/access/grants.h"

#include <algorithm>
#include <utility>

#include "rendezvous/auth/crypto.h"

namespace ddprun::http {

void Grants::Add(const std::string& secret, Grant grant, TimePoint now) {
  std::size_t of_owner = 0;
  for (auto entry = oldest_first_.begin(); entry != oldest_first_.end();) {
    const auto next = std::next(entry);
    if (entry->grant.until.IsOver(now)) {
      Erase(entry);
    } else if (entry->grant.owner == grant.owner) {
      ++of_owner;
    }
    entry = next;
  }
  if (of_owner >= most_of_owner_) {
    Erase(std::find_if(oldest_first_.begin(), oldest_first_.end(),
                       [&](const Entry& entry) { return entry.grant.owner == grant.owner; }));
  } else if (oldest_first_.size() >= most_) {
    Erase(oldest_first_.begin());
  }
  oldest_first_.push_back({auth::Sha256(secret), std::move(grant)});
  by_hash_[oldest_first_.back().hash] = std::prev(oldest_first_.end());
}

std::optional<Grant> Grants::Find(const std::string& secret, TimePoint now) const {
  const auto found = by_hash_.find(auth::Sha256(secret));
  if (found == by_hash_.end() || found->second->grant.until.IsOver(now)) return std::nullopt;
  return found->second->grant;
}

std::optional<Grant> Grants::Take(const std::string& secret, TimePoint now) {
  auto grant = Find(secret, now);
  if (grant) Erase(by_hash_.at(auth::Sha256(secret)));
  return grant;
}

void Grants::Erase(Entries::iterator entry) {
  by_hash_.erase(entry->hash);
  oldest_first_.erase(entry);
}

}  // namespace ddprun::http
