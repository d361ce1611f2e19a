#include "rendezvous/auth/transcript.h"

#include <cstdint>

namespace ddprun::auth {

std::string Transcript(Side side, const Exchange& exchange, std::string_view method) {
  std::string text;
  const auto add = [&text](std::string_view field) {
    const auto size = static_cast<std::uint32_t>(field.size());
    for (const int shift : {24, 16, 8, 0}) text.push_back(static_cast<char>(size >> shift));
    text.append(field);
  };
  add("ddprun-auth-2");
  add(side == Side::kServer ? "server" : "client");
  add(std::to_string(static_cast<int>(exchange.scheme)));
  add(exchange.name);
  add(exchange.client_nonce);
  add(exchange.server_nonce);
  add(exchange.certificates);
  add(method);
  return text;
}

}  // namespace ddprun::auth
