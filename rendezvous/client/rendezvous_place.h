// RendezvousPlace: where a rendezvous is reached, and what is shown to it.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_PLACE_H_
#define DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_PLACE_H_

#include <memory>
#include <string>

namespace ddprun {
namespace auth {
class ClientCredentials;
}

struct RendezvousPlace {
  std::string endpoint;                                          // as of GrpcRendezvousClient
  std::shared_ptr<const auth::ClientCredentials> credentials{};  // null: nothing
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_PLACE_H_
