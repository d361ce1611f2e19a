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

// Another user of this host attacks a loopback daemon that was started without credentials. Such a
// daemon makes a token for its own user.
class LoopbackAttacks {
 public:
  // `impostor`: another user's daemon, which may have taken the port of a missing daemon.
  LoopbackAttacks(const LiveJob* job, const LiveJob* impostor);

  void Joins(Verdicts& verdicts) const;
  void ReportsGone(Verdicts& verdicts) const;
  void Guesses(Verdicts& verdicts) const;
  void Stops(Verdicts& verdicts) const;
  // The reverse: a client of ddprun, with the token of a former daemon, meets a stranger's daemon.
  void Poses(Verdicts& verdicts) const;

 private:
  const std::string endpoint_;
  const std::string impostor_;
  std::shared_ptr<const auth::ClientCredentials> owner_;
};

// An attacker listens on the port that the agents know, and relays everything to the real
// rendezvous.
class RelayAttacks {
 public:
  // `job`: a job whose rendezvous other hosts can reach. `secret`: the secret of its token.
  RelayAttacks(const LiveJob* job, std::string secret);

  // `speaks`: what the relay speaks to the client.
  void OurClient(Verdicts& verdicts, Relay::Speaks speaks) const;
  // A client that does not check the certificate joins.
  void CarelessClient(Verdicts& verdicts, Relay::Speaks speaks) const;

 private:
  static std::string NameOf(Relay::Speaks speaks);
  const std::shared_ptr<const auth::ClientCredentials>& CredentialsFor(Relay::Speaks speaks) const;

  const std::string endpoint_;
  const std::string secret_;
  std::shared_ptr<const auth::ClientCredentials> on_loopback_;
  std::shared_ptr<const auth::ClientCredentials> beyond_;
};

// Opens a Session over TLS. The client shows the certificate `identity`.crt with the key
// `identity`.key, which may be invalid; no certificate if `identity` is "". Both files are in the
// job's folder. `kind`: the row in the table of verdicts.
void TlsAttack(const LiveJob& job, const std::string& kind, const std::string& identity,
               Verdicts& verdicts);
// Opens a Session without TLS at a server that uses TLS.
void PlainAttack(const LiveJob& job, const std::string& kind, Verdicts& verdicts);

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_IMPOSTOR_ATTACKS_H_
