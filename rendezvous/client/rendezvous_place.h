// RendezvousPlace: the endpoint of a rendezvous, and the credentials for it.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_PLACE_H_
#define DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_PLACE_H_

#include <memory>
#include <string>

namespace ddprun {
namespace auth {
class ClientCredentials;
}

struct RendezvousPlace {
  std::string endpoint;  // as in GrpcRendezvousClient::Options
  std::shared_ptr<const auth::ClientCredentials> credentials{};  // null: none
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_RENDEZVOUS_PLACE_H_
