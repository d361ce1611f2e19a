// A gRPC client, and the verdicts on its calls.
#ifndef DDPRUN_TESTS_CHAOS_HOSTILE_GRPC_CLIENT_H_
#define DDPRUN_TESTS_CHAOS_HOSTILE_GRPC_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "ddprun/v1/rendezvous.grpc.pb.h"

namespace ddprun {

using RendezvousStub = v1::Rendezvous::Stub;

// The verdict on a call that ended with this code: the code's name.
std::string NameOf(grpc::StatusCode code);

// A stub on a connection of its own.
std::unique_ptr<RendezvousStub> Connect(const std::string& endpoint,
                                        const std::shared_ptr<grpc::ChannelCredentials>&
                                            credentials = grpc::InsecureChannelCredentials());

// A valid Join to `job`, from an agent that does not exist.
v1::AgentMessage JoinOf(const std::string& job);

// Opens a session, sends `message` (null: nothing), and waits for the end of the session. Returns
// "was answered" if the rendezvous sent a message, otherwise the verdict on the code.
std::string Session(RendezvousStub& stub, grpc::ClientContext& context,
                    const v1::AgentMessage* message);

// Makes the handshake of `request`. Returns a false proof for the metadata of a call: it claims to
// be `name`, and has random bytes instead of an HMAC.
std::string ForgedProof(RendezvousStub& stub, const v1::HandshakeRequest& request,
                        const std::string& name);

// Reports that the agent of JoinOf("live") is gone. Returns the verdict on the code.
std::string ReportGone(RendezvousStub& stub, grpc::ClientContext& context);

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_GRPC_CLIENT_H_
