// Clients who pretend to be somebody else, and servers who do.
#ifndef DDPRUN_TESTS_CHAOS_HOSTILE_IMPOSTOR_ATTACKS_H_
#define DDPRUN_TESTS_CHAOS_HOSTILE_IMPOSTOR_ATTACKS_H_

#include <memory>
#include <string>

#include "rendezvous/auth/client_credentials.h"
#include "tests/chaos/hostile/live_job.h"
#include "tests/chaos/hostile/verdicts.h"
#include "tests/support/relay.h"

namespace ddprun {

// Another user of this host, at a daemon on loopback that was given no credentials.
class LoopbackAttacks {
 public:
  // `impostor`: a daemon of somebody else, which may have taken the port of one that is not there.
  LoopbackAttacks(const LiveJob* job, const LiveJob* impostor);

  void Joins(Verdicts& verdicts) const;
  void ReportsGone(Verdicts& verdicts) const;
  void Guesses(Verdicts& verdicts) const;
  void Stops(Verdicts& verdicts) const;
  // The other way round: our client, with the token that the daemon has left, at a stranger's.
  void Poses(Verdicts& verdicts) const;

 private:
  const std::string endpoint_;
  const std::string impostor_;
  std::shared_ptr<const auth::ClientCredentials> owner_;
};

// Somebody has taken the port that agents were told of, and passes all on to the real rendezvous.
class RelayAttacks {
 public:
  // `job`: one whose rendezvous other hosts can reach. `secret`: its token.
  RelayAttacks(const LiveJob* job, std::string secret);

  void OurClient(Verdicts& verdicts, Relay::Speaks speaks) const;
  // One that does not look whose certificate it sees, and joins.
  void CarelessClient(Verdicts& verdicts, Relay::Speaks speaks) const;

 private:
  static std::string NameOf(Relay::Speaks speaks);
  const std::shared_ptr<const auth::ClientCredentials>& CredentialsFor(Relay::Speaks speaks) const;

  const std::string endpoint_;
  const std::string secret_;
  std::shared_ptr<const auth::ClientCredentials> on_loopback_;
  std::shared_ptr<const auth::ClientCredentials> beyond_;
};

// A Session over TLS with these files, whatever they are; "": with none.
void TlsAttack(const LiveJob& job, const std::string& kind, const std::string& identity,
               Verdicts& verdicts);
// A Session without TLS, where TLS is spoken.
void PlainAttack(const LiveJob& job, const std::string& kind, Verdicts& verdicts);

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_IMPOSTOR_ATTACKS_H_
