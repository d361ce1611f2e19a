// How this folder connects to a rendezvous. Internal to it.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_H_
#define DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "rendezvous/auth/client_credentials.h"

namespace ddprun {

// A connection of its own, made with the first call. Proxies of the environment are not honoured.
// `credentials` may be null: not encrypted.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& endpoint,
                                           const auth::ClientCredentials* credentials = nullptr);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_H_
