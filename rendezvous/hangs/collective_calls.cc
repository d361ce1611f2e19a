#include "rendezvous/hangs/collective_calls.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ddprun {
namespace {

// The size of these operations may differ between ranks: in a scatter, for example, only the root
// contributes bytes.
constexpr std::array kOfAnySize = {"scatter", "all_to_all", "another operation"};

bool MayDifferInSize(const std::string& operation) {
  return std::find(kOfAnySize.begin(), kOfAnySize.end(), operation) != kOfAnySize.end();
}

std::string DescribeWith(const CollectiveCall& call, const std::string& size) {
  return absl::StrCat(call.operation, " ", call.sequence, " (", size,
                      call.bucket ? absl::StrCat(", bucket ", *call.bucket) : "", ")");
}

}  // namespace

std::string Describe(const CollectiveCall& call) {
  return DescribeWith(call, absl::StrFormat("%.1f MB", static_cast<double>(call.bytes) / 1e6));
}

std::string DescribeExactly(const CollectiveCall& call) {
  return DescribeWith(call, absl::StrCat(call.bytes, " bytes"));
}

bool Match(const CollectiveCall& one, const CollectiveCall& other) {
  if (one.group != other.group || one.sequence != other.sequence) return true;
  if (one.operation != other.operation) return false;
  return one.bytes == other.bytes || MayDifferInSize(one.operation);
}

void EnteredCalls::Add(const CollectiveCall& call, Rank lowest, const std::string& host,
                       int ranks) {
  const auto found = std::find_if(forms_.begin(), forms_.end(),
                                  [&](const Form& form) { return form.call == call; });
  if (found == forms_.end()) {
    if (forms_.size() < kMaxForms) forms_.push_back({call, lowest, host, ranks});
    return;
  }
  found->ranks += ranks;
  if (lowest < found->lowest) {
    found->lowest = lowest;
    found->host = host;
  }
}

const EnteredCalls::Form* EnteredCalls::Unlike(const Form& form, bool most) const {
  const Form* found = nullptr;
  for (const Form& other : forms_) {
    if (Match(form.call, other.call)) continue;
    const bool better =
        found == nullptr || (most ? other.ranks > found->ranks : other.ranks < found->ranks);
    if (better) found = &other;
  }
  return found;
}

std::optional<std::string> EnteredCalls::Mismatch() const {
  const Form* newest = nullptr;
  for (const Form& form : forms_) {
    if (newest != nullptr && form.call.sequence <= newest->call.sequence) continue;
    if (Unlike(form, /*most=*/true) != nullptr) newest = &form;
  }
  if (newest == nullptr) return std::nullopt;
  const Form* common = Unlike(*newest, /*most=*/true);
  if (newest->ranks >= common->ranks) common = newest;
  const Form* const odd = Unlike(*common, /*most=*/false);
  const auto who = [](const Form& form) {
    const std::string others = form.ranks == 1
                                   ? ""
                                   : absl::StrCat(" and ", form.ranks - 1,
                                                  form.ranks == 2 ? " other rank" : " other ranks");
    return absl::StrCat("rank ", form.lowest.value, " on ", form.host, others, " entered ",
                        DescribeExactly(form.call));
  };
  return absl::StrCat(who(*odd), "; ", who(*common), ": their calls do not match");
}

}  // namespace ddprun
