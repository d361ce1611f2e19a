// An etcd as the command line names it, for rendezvous/etcd.
#ifndef DDPRUN_LAUNCHER_CONNECTION_ETCD_CLIENT_OPTIONS_H_
#define DDPRUN_LAUNCHER_CONNECTION_ETCD_CLIENT_OPTIONS_H_

#include "launcher/config/flags/cli.h"
#include "rendezvous/etcd/etcd_client.h"

namespace ddprun {

inline etcd::Options ClientOptionsOf(const EtcdConfig& config) {
  etcd::Options options;
  options.endpoints = config.endpoints;
  options.ca = config.ca_file;
  options.cert = config.certificate_file;
  options.key = config.key_file;
  options.user = config.user;
  options.password_file = config.password_file;
  return options;
}

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_ETCD_CLIENT_OPTIONS_H_
