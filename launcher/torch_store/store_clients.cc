#include "launcher/torch_store/store_clients.h"

#include "absl/strings/str_cat.h"

namespace ddprun::torch_store {

absl::Status StoreClients::Receive(ClientId id, absl::string_view bytes, Replies* replies) {
  Client& client = clients_[id];
  if (client.unfinished.empty()) {
    const absl::Status handled = HandleRequests(id, &client, &bytes, replies);
    if (!handled.ok()) return handled;
    client.unfinished = std::string(bytes);
    unfinished_bytes_ += bytes.size();
  } else {
    absl::StrAppend(&client.unfinished, bytes);
    unfinished_bytes_ += bytes.size();
    absl::string_view all = client.unfinished;
    const absl::Status handled = HandleRequests(id, &client, &all, replies);
    if (!handled.ok()) return handled;
    const std::size_t taken = client.unfinished.size() - all.size();
    unfinished_bytes_ -= taken;
    if (all.empty()) {
      client.unfinished = std::string();  // frees the memory
    } else {
      client.unfinished.erase(0, taken);
    }
  }
  if (unfinished_bytes_ <= limits_.unfinished_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("requests that are not complete have more than ",
                                                   limits_.unfinished_bytes, " bytes"));
}

void StoreClients::Close(ClientId id) {
  keys_.Forget(id);
  polls_.Forget(id);
  const auto client = clients_.find(id);
  if (client == clients_.end()) return;
  unfinished_bytes_ -= client->second.unfinished.size();
  clients_.erase(client);
}

absl::Status StoreClients::HandleRequests(ClientId id, Client* client, absl::string_view* bytes,
                                          Replies* replies) {
  if (!client->dialect) {
    const std::optional<Greeting> greeting = ParseGreeting(*bytes);
    if (!greeting) return absl::OkStatus();
    client->dialect = greeting->dialect;
    bytes->remove_prefix(greeting->size);
  }
  while (!bytes->empty()) {
    const auto parsed = ParseRequest(*client->dialect, *bytes);
    if (!parsed.ok()) return parsed.status();
    if (!*parsed) break;
    const Request& request = (*parsed)->request;
    if (polls_.any()) polls_.Answer(id, replies);
    const std::size_t first = replies->size();
    const absl::Status handled = keys_.Handle(id, request, replies);
    if (!handled.ok()) return handled;
    if (client->dialect == Dialect::kAtOnce) polls_.See(id, request, first, replies);
    new_arrivals_ = arrivals_.See(request) || new_arrivals_;
    bytes->remove_prefix((*parsed)->size);
  }
  return absl::OkStatus();
}

}  // namespace ddprun::torch_store
