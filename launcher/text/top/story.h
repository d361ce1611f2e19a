// What a person asks first of a job: how it is, why, and what happens next. The same words as on
// the page that the rendezvous serves. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_STORY_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_STORY_H_

#include <string>

#include "launcher/text/top/screen.h"
#include "launcher/text/top/snapshot.h"

namespace ddprun::top {

// "Running", "Hung", "Failed": one word.
std::string StateWord(const JobRow& job);

// kBad: somebody should look. kBusy: it is on its way. kGood: it trains. kQuiet: it has ended well.
Style MoodOf(const JobRow& job);

// How urgent a job is: 0 for the jobs that a person must look at first.
int UrgencyOf(const JobRow& job);

// "for 2 h 13 min", "5 min 0 s ago".
std::string SinceText(const JobRow& job);

std::string NowText(const JobRow& job);
std::string CauseText(const JobRow& job);
std::string NextText(const JobRow& job);

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_STORY_H_
