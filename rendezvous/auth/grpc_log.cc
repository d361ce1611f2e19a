#include "rendezvous/auth/grpc_log.h"

#include <grpc/support/log.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

namespace ddprun::auth {
namespace {

std::mutex mutex;
// Guarded by mutex. Never destroyed: gRPC's threads may outlive main.
auto& listener = *new std::shared_ptr<std::function<void(const std::string&)>>;

void OnLog(gpr_log_func_args* args) {
  const std::string_view file = args->file;
  std::string_view text = args->message;
  if (file.find("ssl_transport_security") == std::string_view::npos) return;
  if (text.find("Handshake failed") == std::string_view::npos) return;
  const auto detail = text.rfind("::");  // "SSL_ERROR_SSL: error:0A000086:SSL routines::..."
  if (detail != std::string_view::npos) text.remove_prefix(detail + 2);
  if (!text.empty() && text.back() == '.') text.remove_suffix(1);
  std::shared_ptr<std::function<void(const std::string&)>> callee;
  {
    const std::lock_guard lock(mutex);
    callee = listener;
  }
  if (callee != nullptr) (*callee)(std::string(text));
}

}  // namespace

void QuietGrpc() {
  static const bool done = [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr && std::getenv("GRPC_TRACE") == nullptr) {
      gpr_set_log_function(&OnLog);
    }
    return true;
  }();
  static_cast<void>(done);
}

void OnTlsHandshakeFailed(std::function<void(const std::string& reason)> callee) {
  QuietGrpc();
  auto next = std::make_shared<std::function<void(const std::string&)>>(std::move(callee));
  const std::lock_guard lock(mutex);
  listener = std::move(next);
}

}  // namespace ddprun::auth
