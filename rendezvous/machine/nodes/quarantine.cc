#include "rendezvous/machine/nodes/quarantine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun {

Quarantine::Quarantine(int limit, Duration window, const QuarantineRecord& record, TimePoint now)
    : Quarantine(limit, window) {
  hosts_ = record.hosts;
  hangs_.assign(record.hangs.begin(), record.hangs.end());
  for (const Blame& blame : record.blames) blames_.push_back({blame.host, now - blame.age});
}

bool Quarantine::Count(const std::string& host, TimePoint now) {
  if (limit_ == 0 || Excludes(host)) return false;
  blames_.push_back({host, now});
  while (blames_.size() > kMaxBlames || now - blames_.front().at > window_) blames_.pop_front();
  const auto times = std::count_if(blames_.begin(), blames_.end(),
                                   [&](const Dated& blame) { return blame.host == host; });
  if (times < limit_ || !Exclude(host)) return false;
  std::erase_if(blames_, [&](const Dated& blame) { return blame.host == host; });
  return true;
}

void Quarantine::CountHang(const std::string& host) {
  hangs_.push_back(host);
  if (hangs_.size() > kMaxBlames) hangs_.pop_front();
}

int Quarantine::HangsOf(const std::string& host) const {
  return static_cast<int>(std::count(hangs_.begin(), hangs_.end(), host));
}

bool Quarantine::Exclude(const std::string& host) {
  if (Excludes(host) || hosts_.size() >= kMaxHosts) return false;
  hosts_.push_back(host);
  return true;
}

bool Quarantine::Excludes(const std::string& host) const {
  return std::find(hosts_.begin(), hosts_.end(), host) != hosts_.end();
}

QuarantineRecord Quarantine::Record(TimePoint now) const {
  QuarantineRecord record;
  record.hosts = hosts_;
  record.hangs.assign(hangs_.begin(), hangs_.end());
  for (const Dated& blame : blames_) record.blames.push_back({blame.host, now - blame.at});
  return record;
}

void LateAdmission::OnLost(const NodeSpec& node, Duration stayed) {
  Losses losses{node.host, node.address, 0};
  const auto found =
      std::find_if(losses_.begin(), losses_.end(), [&](const Losses& l) { return IsOf(l, node); });
  if (found != losses_.end()) {
    losses = *found;
    losses_.erase(found);
  }
  if (stayed > kSoon) return;
  ++losses.in_a_row;
  losses_.push_back(std::move(losses));
  if (losses_.size() > kMaxLostNodes) losses_.pop_front();
}

std::optional<LateAdmission::Wait> LateAdmission::WaitOf(const NodeSpec& node) const {
  const auto found =
      std::find_if(losses_.begin(), losses_.end(), [&](const Losses& l) { return IsOf(l, node); });
  if (found == losses_.end() || found->in_a_row < 2) return std::nullopt;
  Duration delay = kFirstDelay;
  for (int i = 2; i < found->in_a_row && delay < kMaxDelay; ++i) delay *= 2;
  return Wait{std::min(delay, kMaxDelay),
              absl::StrCat("it was gone soon after joining, ", found->in_a_row, " times in a row")};
}

}  // namespace ddprun
