#include "rendezvous/service/slow_calls.h"

#include "absl/strings/str_cat.h"
#include "rendezvous/service/access_control.h"

namespace ddprun {

absl::StatusOr<SlowCalls::Place> SlowCalls::Enter(const std::string& peer) {
  std::string address(AddressOf(peer));
  absl::Status full;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_address_.find(address);
    const std::size_t of_address = found == by_address_.end() ? 0 : found->second;
    if (all_ < limits_.all && of_address < limits_.of_address) {
      ++all_;
      ++by_address_[address];
      return Place(this, std::move(address));
    }
    full = absl::ResourceExhaustedError(
        absl::StrCat("too many calls wait for an answer: ", all_, ", and ", of_address,
                     " of them from ", address,
                     "; munged on the host of the rendezvous is slow or does not answer, or a "
                     "client calls too often"));
  }
  refusals_->Count(refusal::kTooManyWaiting, absl::StrCat(peer, ": ", full.message()));
  return full;
}

void SlowCalls::Leave(const std::string& address) {
  const std::lock_guard lock(mutex_);
  --all_;
  const auto found = by_address_.find(address);
  if (--found->second == 0) by_address_.erase(found);
}

}  // namespace ddprun
