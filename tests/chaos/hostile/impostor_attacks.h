// Clients and servers that pretend to be somebody else.
#ifndef DDPRUN_TESTS_CHAOS_HOSTILE_IMPOSTOR_ATTACKS_H_
#define DDPRUN_TESTS_CHAOS_HOSTILE_IMPOSTOR_ATTACKS_H_

#include <memory>
#include <string>

#include "rendezvous/auth/client_credentials.h"
#include "tests/chaos/hostile/live_job.h"
#include "tests/chaos/hostile/verdicts.h"
#include "tests/support/relay.h"

namespace ddprun {

// Another user of this host, at a loopback daemon without given credentials.
class LoopbackAttacks {
 public:
  // `impostor`: another user's daemon, which may have taken the port of a missing daemon.
  LoopbackAttacks(const LiveJob* job, const LiveJob* impostor);

  void Joins(Verdicts& verdicts) const;
  void ReportsGone(Verdicts& verdicts) const;
  void Guesses(Verdicts& verdicts) const;
  void Stops(Verdicts& verdicts) const;
  // The reverse: our client, with the token of a former daemon, at a stranger's daemon.
  void Poses(Verdicts& verdicts) const;

 private:
  const std::string endpoint_;
  const std::string impostor_;
  std::shared_ptr<const auth::ClientCredentials> owner_;
};

// An attacker has the port that the agents know, and relays everything to the real rendezvous.
class RelayAttacks {
 public:
  // `job`: one whose rendezvous other hosts can reach. `secret`: its token.
  RelayAttacks(const LiveJob* job, std::string secret);

  void OurClient(Verdicts& verdicts, Relay::Speaks speaks) const;
  // A client that does not check the certificate, and joins.
  void CarelessClient(Verdicts& verdicts, Relay::Speaks speaks) const;

 private:
  static std::string NameOf(Relay::Speaks speaks);
  const std::shared_ptr<const auth::ClientCredentials>& CredentialsFor(Relay::Speaks speaks) const;

  const std::string endpoint_;
  const std::string secret_;
  std::shared_ptr<const auth::ClientCredentials> on_loopback_;
  std::shared_ptr<const auth::ClientCredentials> beyond_;
};

// A Session over TLS with these files, valid or not; "": without files.
void TlsAttack(const LiveJob& job, const std::string& kind, const std::string& identity,
               Verdicts& verdicts);
// A Session without TLS at a server that uses TLS.
void PlainAttack(const LiveJob& job, const std::string& kind, Verdicts& verdicts);

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_IMPOSTOR_ATTACKS_H_
