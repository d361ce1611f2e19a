// What agents and the rendezvous say to each other, as plain structs. The wire form is
// proto/ddprun/v1/rendezvous.proto. rendezvous/wire translates; rendezvous/service, client and auth
// hold the protobuf messages, and no other folder does.
#ifndef DDPRUN_RENDEZVOUS_CORE_MESSAGES_H_
#define DDPRUN_RENDEZVOUS_CORE_MESSAGES_H_

#include "rendezvous/core/messages/failure.h"
#include "rendezvous/core/messages/header.h"
#include "rendezvous/core/messages/join.h"
#include "rendezvous/core/messages/logs.h"
#include "rendezvous/core/messages/to_agent.h"
#include "rendezvous/core/messages/to_rendezvous.h"

#endif  // DDPRUN_RENDEZVOUS_CORE_MESSAGES_H_
