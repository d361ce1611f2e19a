// Browsers, and attackers that pose as browsers, at the page of a rendezvous with a live job.
#ifndef DDPRUN_TESTS_CHAOS_HOSTILE_PAGE_ATTACKS_H_
#define DDPRUN_TESTS_CHAOS_HOSTILE_PAGE_ATTACKS_H_

#include <string>
#include <vector>

#include "tests/chaos/hostile/live_job.h"
#include "tests/chaos/hostile/verdicts.h"

namespace ddprun {

class PageAttacks {
 public:
  // `job`: its daemon has --http, and it outlives this. `flags`: the flags of the owner's commands.
  // Signs in once.
  PageAttacks(LiveJob* job, std::vector<std::string> flags);

  int port() const { return port_; }

  // Each of these sends one request. OtherOwner() signs in before.
  void HugeBody(Verdicts& verdicts) const;
  void HugeBodyInPieces(Verdicts& verdicts) const;
  void HugeHead(Verdicts& verdicts) const;
  void PathTricks(Verdicts& verdicts, unsigned which) const;
  void ForeignHost(Verdicts& verdicts) const;
  void CrossSitePost(Verdicts& verdicts) const;
  void OrderOfAnotherSitesScript(Verdicts& verdicts) const;
  void FormOfAnotherSite(Verdicts& verdicts) const;
  void UsedCode(Verdicts& verdicts) const;
  void GuessedSession(Verdicts& verdicts) const;
  void StopsWithoutASession(Verdicts& verdicts) const;
  void OtherOwner(Verdicts& verdicts) const;

  // An endless request head, byte by byte. Each byte comes in time, but not the whole head.
  void DrippingHead(Verdicts& verdicts) const;
  // Scrapers on many connections send each next request before they have the answer. Each answer is
  // the metrics or "too many".
  void ScrapeStorm(Verdicts& verdicts) const;
  // A thousand viewers at once. The server serves as many as it has room for, and refuses the
  // others with status 503.
  void ThousandViewers(Verdicts& verdicts) const;

 private:
  LiveJob* const job_;
  int port_ = 0;
  std::string login_;    // the body of a login whose code was used
  std::string session_;  // the header of the session
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_PAGE_ATTACKS_H_
