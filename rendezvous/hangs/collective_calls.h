// Collectives that ranks have entered: as words, and whether those with one number fit together.
// Pure.
#ifndef DDPRUN_RENDEZVOUS_HANGS_COLLECTIVE_CALLS_H_
#define DDPRUN_RENDEZVOUS_HANGS_COLLECTIVE_CALLS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/progress.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// "all_reduce 9632 (12.1 MB, bucket 2)"
std::string Describe(const CollectiveCall& call);
// "all_reduce 9632 (12100004 bytes, bucket 2)": sizes may differ by a few bytes.
std::string DescribeExactly(const CollectiveCall& call);

// Whether two ranks may be in these two calls at once. True where the group or the number differs:
// then one rank is only behind the other.
bool Match(const CollectiveCall& one, const CollectiveCall& other);

// The last calls of the ranks of a generation, when their processes ended.
class EnteredCalls {
 public:
  static constexpr std::size_t kMaxForms = 64;  // different calls; more are dropped

  // `ranks` ranks of one node entered `call`; `lowest` is the lowest of them.
  void Add(const CollectiveCall& call, Rank lowest, const std::string& host, int ranks);

  // "rank 1 on n1 entered all_reduce 33 (12000 bytes); rank 0 on n1 and 2 other ranks entered
  // all_reduce 33 (8000 bytes): their calls do not match". The newest number decides; the call of
  // the fewest ranks comes first. nullopt: all calls match.
  std::optional<std::string> Mismatch() const;

 private:
  struct Form {
    CollectiveCall call;
    Rank lowest;
    std::string host;
    int ranks = 0;
  };

  // nullptr: no other call does not match `form`. Else the one of the most ranks, or of the fewest.
  const Form* Unlike(const Form& form, bool most) const;

  std::vector<Form> forms_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_COLLECTIVE_CALLS_H_
