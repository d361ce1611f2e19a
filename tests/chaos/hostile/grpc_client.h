// A gRPC client, and the verdicts on its calls.
#ifndef DDPRUN_TESTS_CHAOS_HOSTILE_GRPC_CLIENT_H_
#define DDPRUN_TESTS_CHAOS_HOSTILE_GRPC_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "ddprun/v1/rendezvous.grpc.pb.h"

namespace ddprun {

using RendezvousStub = v1::Rendezvous::Stub;

// The verdict for a call that ended with this code.
std::string NameOf(grpc::StatusCode code);

// A stub on a connection of its own.
std::unique_ptr<RendezvousStub> Connect(const std::string& endpoint,
                                        const std::shared_ptr<grpc::ChannelCredentials>&
                                            credentials = grpc::InsecureChannelCredentials());

v1::AgentMessage JoinOf(const std::string& job);

// Opens a session, sends `message` (null: nothing), and waits for the end of the session.
std::string Session(RendezvousStub& stub, grpc::ClientContext& context,
                    const v1::AgentMessage* message);

// Makes the handshake and returns random bytes as a false proof, for the metadata of a call.
std::string ForgedProof(RendezvousStub& stub, const v1::HandshakeRequest& request,
                        const std::string& name);

std::string ReportGone(RendezvousStub& stub, grpc::ClientContext& context);

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_GRPC_CLIENT_H_
