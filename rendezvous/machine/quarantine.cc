#include "rendezvous/machine/quarantine.h"

#include <algorithm>

namespace ddprun {

Quarantine::Quarantine(int limit, Duration window, const QuarantineRecord& record, TimePoint now)
    : Quarantine(limit, window) {
  hosts_ = record.hosts;
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
  for (const Dated& blame : blames_) record.blames.push_back({blame.host, now - blame.at});
  return record;
}

}  // namespace ddprun
