// The messages between agents and the rendezvous, as plain structs. The wire format is
// proto/ddprun/v1/rendezvous.proto. rendezvous/wire translates between the two. Only
// rendezvous/wire, service, client and auth use these protobuf messages.
#ifndef DDPRUN_RENDEZVOUS_CORE_MESSAGES_H_
#define DDPRUN_RENDEZVOUS_CORE_MESSAGES_H_

#include "rendezvous/core/messages/failure.h"
#include "rendezvous/core/messages/header.h"
#include "rendezvous/core/messages/join.h"
#include "rendezvous/core/messages/logs.h"
#include "rendezvous/core/messages/to_agent.h"
#include "rendezvous/core/messages/to_rendezvous.h"

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_H_
