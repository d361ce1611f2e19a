// The first answers about a job: its state, the reason, and what happens next. Same words as the
// page that the rendezvous serves. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_STORY_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_STORY_H_

#include <string>

#include "launcher/text/top/screen.h"
#include "launcher/text/top/snapshot.h"

namespace ddprun::top {

// "Running", "Hung"; after the end the outcome: "failed", "state unreadable".
std::string StateWord(const JobRow& job);

// kBad: needs attention. kBusy: in transition, slow to move, or preempted. kGood: trains. kQuiet:
// ended well.
Style MoodOf(const JobRow& job);

// The urgency of a job; 0: look at it first.
int UrgencyOf(const JobRow& job);

// "for 2 h 13 min", "5 min 0 s ago".
std::string SinceText(const JobRow& job);

std::string NowText(const JobRow& job);
std::string CauseText(const JobRow& job);
std::string NextText(const JobRow& job);

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_STORY_H_
