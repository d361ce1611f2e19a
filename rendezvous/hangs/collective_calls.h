// Collectives that ranks have entered: their text form, and whether calls with the same number
// match. Pure.
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
// "all_reduce 9632 (12100004 bytes, bucket 2)". In bytes, because two sizes may differ by only a
// few bytes.
std::string DescribeExactly(const CollectiveCall& call);

// True if two ranks can be in these two calls at the same time without an error. Also true if group
// or number differ, because ranks may be at different calls without an error.
bool Match(const CollectiveCall& one, const CollectiveCall& other);

// The last collectives that the ranks of one generation entered, collected when their processes
// end.
class EnteredCalls {
 public:
  static constexpr std::size_t kMaxForms = 64;  // distinct calls; further ones are dropped

  // On one node, `ranks` ranks entered `call`; `lowest` is the lowest of these ranks.
  void Add(const CollectiveCall& call, Rank lowest, const std::string& host, int ranks);

  // "rank 1 on n1 entered all_reduce 33 (12000 bytes); rank 0 on n1 and 2 other ranks entered
  // all_reduce 33 (8000 bytes): their calls do not match". If several numbers have a mismatch, the
  // text describes the newest one. The call that the fewest ranks entered comes first. nullopt: all
  // calls match.
  std::optional<std::string> Mismatch() const;

 private:
  struct Form {
    CollectiveCall call;
    Rank lowest;
    std::string host;
    int ranks = 0;
  };

  // Of the calls that do not match `form`: the one that the most ranks entered (`most`), or the
  // fewest. nullptr: all calls match `form`.
  const Form* Unlike(const Form& form, bool most) const;

  std::vector<Form> forms_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_COLLECTIVE_CALLS_H_
