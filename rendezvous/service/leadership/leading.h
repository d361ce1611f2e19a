// Leading: the answer to Follow of a rendezvous that is one of several. Plain values.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADING_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADING_H_

#include <string>

#include "rendezvous/core/term.h"

namespace ddprun {

struct Leading {
  // The numbers are those of the wire (proto/ddprun/v1/rendezvous.proto).
  enum class Role {
    kStandsBy = 0,
    kLeads = 1,      // and may acknowledge
    kSilenced = 2,   // leads, but has not reached etcd for too long to acknowledge
    kHandsOver = 3,  // hands over or has lost the lead: acknowledges no more
    kTakesUp = 4,    // leads and still reads the jobs: it serves soon
  };

  Role role = Role::kStandsBy;
  Term term{};         // of the leader that it knows, perhaps itself
  std::string leader;  // endpoint of that leader; "": not known

  bool operator==(const Leading&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADING_H_
