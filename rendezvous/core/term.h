// Term: names the leader of several rendezvous that share an etcd (docs/ha.md).
#ifndef DDPRUN_RENDEZVOUS_CORE_TERM_H_
#define DDPRUN_RENDEZVOUS_CORE_TERM_H_

#include <cstdint>

namespace ddprun {

// Each write of the leader key begins a new term, of another leader or of the same one. A higher
// revision is later. Terms of different clusters cannot be compared: revisions go back when etcd is
// restored from a snapshot.
struct Term {
  std::uint64_t cluster = 0;   // etcd's cluster id
  std::uint64_t revision = 0;  // mod_revision of the leader key; 0: no term

  bool none() const { return revision == 0; }
  bool operator==(const Term&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_TERM_H_
