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
  // `job`: its daemon has --http. `flags`: those with which its owner asks. Signs in once; the job
  // outlives this.
  PageAttacks(LiveJob* job, std::vector<std::string> flags);

  int port() const { return port_; }

  // Each asks once.
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

  // An endless request head, byte by byte: each byte comes in time, the whole head does not.
  void DrippingHead(Verdicts& verdicts) const;
  // Scrapers that ask again before the answer, on many connections. Each answer is the metrics or
  // "too many"; the job continues.
  void ScrapeStorm(Verdicts& verdicts) const;
  // A thousand viewers at once: the server serves as many as it has room for, and refuses the
  // others with a reason.
  void ThousandViewers(Verdicts& verdicts) const;

 private:
  LiveJob* const job_;
  int port_ = 0;
  std::string login_;    // with a code that was used
  std::string session_;  // its header
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_PAGE_ATTACKS_H_
