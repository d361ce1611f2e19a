#include "worker/src/restore/state_stream.h"

#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <ddp/gather.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "worker/contract/environment.h"
#include "worker/src/agent/generation_secret.h"
#include "worker/src/agent/launch_variables.h"
#include "worker/src/group/failure.h"
#include "worker/src/group/process_group.h"
#include "worker/src/peers/rank_failure_detector.h"
#include "worker/src/transfer/chunk_ring.h"
#include "worker/src/transfer/state_links.h"
#include "worker/src/transfer/state_route.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kPlaces = 8;  // chunks in a ring at the same time
constexpr std::chrono::seconds kConnectPatience(60);

std::size_t LargestOf(const std::vector<StateChunk>& chunks) {
  std::size_t largest = 0;
  for (const StateChunk& chunk : chunks) largest = std::max(largest, chunk.bytes);
  return largest;
}

std::string RingPath(const Context& ctx) {
  const char* const folder = LaunchVariable(ddprun::env::kSnapshotDir);
  return std::string(folder == nullptr ? "/dev/shm" : folder) + "/.ddp-restore-" +
         std::to_string(getuid()) + "-" + std::to_string(getpid()) + "-" +
         std::to_string(ctx.rank());
}

// Knows which ranks share memory. All ranks must agree on this, because a rank that cannot share
// needs another route.
class Neighbours {
 public:
  Neighbours(const Context& ctx, int source, bool has_file, const ChunkRing::Shape& shape)
      : ctx_(ctx), source_(source), shape_(shape) {
    ranks_.resize(static_cast<std::size_t>(ctx.world_size()));
    const std::vector<std::int64_t> all = Gather({ctx.rank() - ctx.local_rank(), has_file ? 1 : 0});
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i] = {static_cast<int>(all[2 * i]), all[2 * i + 1] != 0, true};
    }
    MakeRing();
  }

  StateRoute route() const { return MakeStateRoute(ranks_, source_, ctx_.rank()); }
  // True if the state must go to another node, or to a rank that shares no memory. The same on all
  // ranks.
  bool HasNetwork() const { return !MakeStateRoute(ranks_, source_, source_).children.empty(); }
  ChunkRing* ring() { return ring_ ? &*ring_ : nullptr; }

 private:
  std::vector<std::int64_t> Gather(const std::array<std::int64_t, 2>& mine) const {
    const torch::Tensor row = torch::tensor({mine[0], mine[1]}, torch::kInt64);
    std::vector<std::int64_t> all;
    for (const torch::Tensor& one : all_gather(ctx_, row)) {
      all.push_back(one[0].item<std::int64_t>());
      all.push_back(one[1].item<std::int64_t>());
    }
    return all;
  }

  void MakeRing() {
    const StateRoute mine = route();
    const bool leads = !mine.followers.empty();
    bool wanted = leads || mine.leader != ctx_.rank();
    // Whether any rank needs a ring. All ranks compute the same answer from the common table.
    bool any = false;
    for (int rank = 0; rank < ctx_.world_size(); ++rank) {
      any = any || !MakeStateRoute(ranks_, source_, rank).followers.empty();
    }
    if (!any) return;
    std::string path;
    if (leads) {
      try {
        path = RingPath(ctx_);
        ring_.emplace(ChunkRing::Create(path, ShapeFor(mine.followers.size())));
      } catch (const std::exception&) {
        path.clear();
      }
    }
    const std::vector<std::string> paths = all_gather_object(ctx_, path);
    bool works = !wanted || leads ? !leads || ring_.has_value() : false;
    if (wanted && !leads) works = Follow(mine, paths);
    const std::vector<std::int64_t> all = Gather({works ? 1 : 0, 0});
    if (leads && !path.empty()) unlink(path.c_str());  // every rank that will open it has opened it
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (all[2 * i] == 0) GoAlone(ranks_[i].node);
    }
  }

  ChunkRing::Shape ShapeFor(std::size_t followers) const {
    ChunkRing::Shape shape = shape_;
    shape.followers = followers;
    return shape;
  }

  bool Follow(const StateRoute& mine, const std::vector<std::string>& paths) {
    const std::string& path = paths[static_cast<std::size_t>(mine.leader)];
    if (path.empty()) return false;
    const std::vector<int> followers = MakeStateRoute(ranks_, source_, mine.leader).followers;
    const auto number = std::find(followers.begin(), followers.end(), ctx_.rank());
    try {
      ring_.emplace(ChunkRing::Open(path, ShapeFor(followers.size()),
                                    static_cast<std::size_t>(number - followers.begin())));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void GoAlone(int node) {
    for (RankPlace& rank : ranks_) {
      if (rank.node == node) rank.can_share = false;
    }
    if (ranks_[static_cast<std::size_t>(ctx_.rank())].node == node) ring_.reset();
  }

  const Context& ctx_;
  const int source_;
  const ChunkRing::Shape shape_;
  std::vector<RankPlace> ranks_;
  std::optional<ChunkRing> ring_;
};

// For the source, and for ranks of its node that read the file. Reads chunk by chunk into this
// rank's tensors, and sends each chunk to the children while it is in the cache. `links` null: no
// children. After a fault it sends zeros, because other ranks wait for the bytes.
std::optional<StreamFault> ReadFile(const FoundState& state, const std::vector<StateChunk>& chunks,
                                    StateLinks* links, StateSink* sink) {
  std::vector<std::byte> bytes(LargestOf(chunks));
  std::optional<StreamFault> fault;
  for (const StateChunk& chunk : chunks) {
    try {
      if (!fault) state.file->Read(state.offset + chunk.offset, bytes.data(), chunk.bytes);
    } catch (const UnavailableError& e) {
      fault.emplace().unavailable = e;
    } catch (const FormatError& e) {
      fault.emplace().damage = e.what();
    }
    if (fault) std::fill(bytes.begin(), bytes.end(), std::byte{0});
    sink->Take(bytes.data(), chunk.bytes);
    if (links != nullptr) links->Send(bytes.data(), chunk.bytes);
  }
  return fault;
}

// If a rank without a connection to this one fails, only the failure detector knows it.
void ThrowIfAnotherFailed() {
  const auto detector = ProcessFailureDetector();
  if (detector != nullptr && !detector->KnownCause().empty()) {
    throw std::runtime_error("another rank has failed");
  }
}

// Calls `wait(patience)` again and again, with a short patience, until it returns true.
template <typename Wait>
void WaitForNeighbour(const Context& ctx, const Wait& wait) {
  constexpr std::chrono::milliseconds kBetweenChecks(200);
  const auto deadline = std::chrono::steady_clock::now() + ctx.timeout();
  while (!wait(kBetweenChecks)) {
    ThrowIfAnotherFailed();
    if (std::chrono::steady_clock::now() < deadline) continue;
    throw std::runtime_error("a rank of this node did nothing for " +
                             std::to_string(ctx.timeout().count() / 1000) + " s");
  }
}

// For a leader: passes the bytes from its parent to its children, its followers, and its own
// tensors. `ring` null: no followers.
void Relay(const Context& ctx, const std::vector<StateChunk>& chunks, ChunkRing* ring,
           StateLinks* links, StateSink* sink) {
  std::vector<std::byte> own;  // for chunks that are not received in place
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const StateChunk& chunk = chunks[i];
    std::byte* data = ring == nullptr ? sink->Place(chunk) : nullptr;
    if (ring != nullptr) {
      WaitForNeighbour(ctx, [&](auto patience) { return ring->WaitForPlace(i, patience); });
      data = ring->place(i);
    } else if (data == nullptr) {
      own.resize(kMaxChunkBytes);
      data = own.data();
    }
    links->Receive(data, chunk.bytes);
    if (ring != nullptr) ring->Publish(i);
    links->Send(data, chunk.bytes);
    sink->Take(data, chunk.bytes);
  }
}

void Follow(const Context& ctx, const std::vector<StateChunk>& chunks, ChunkRing* ring,
            StateSink* sink) {
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    WaitForNeighbour(ctx, [&](auto patience) { return ring->WaitForChunk(i, patience); });
    sink->Take(ring->place(i), chunks[i].bytes);
    ring->Release(i);
  }
}

std::string AddressOfRank(const Context& ctx, int rank) {
  const std::vector<std::uint8_t> bytes = ctx.store()->get(AddressKey(rank));
  return {bytes.begin(), bytes.end()};
}

// On a rank that has read the file: returns what is wrong with the file.
std::optional<StreamFault> Stream(const Context& ctx, const FoundState& state,
                                  const std::vector<StateChunk>& chunks, StateSink* sink) {
  // While a rank waits for a ring, no connection of this rank breaks when its neighbour dies. So
  // the failure detector must tell it.
  if (const auto detector = ProcessFailureDetector()) detector->WatchForLoss(nullptr);
  ChunkRing::Shape shape;
  shape.places = std::min(kPlaces, chunks.size());
  shape.place_bytes = LargestOf(chunks);
  Neighbours neighbours(ctx, state.source, state.file != nullptr, shape);
  const StateRoute route = neighbours.route();
  std::optional<StateLinks> links;
  std::string problem;
  try {
    links.emplace(ctx.rank(), route.children, GenerationSecret());
  } catch (const std::system_error& e) {
    problem = e.what();
  }
  // All ranks know whether the network is needed.
  std::vector<std::string> contacts;
  if (neighbours.HasNetwork()) contacts = all_gather_object(ctx, links ? links->contact() : "");
  std::optional<StreamFault> fault;
  Collective("restoring the state", ctx.rank(), ctx.world_size(), [&] {
    if (!links) throw std::runtime_error("cannot listen for other nodes: " + problem);
    std::optional<StateLinks::Parent> parent;
    if (route.parent >= 0) {
      parent = {route.parent, AddressOfRank(ctx, route.parent),
                contacts[static_cast<std::size_t>(route.parent)]};
    }
    links->Connect(parent, {kConnectPatience, ctx.timeout(), ThrowIfAnotherFailed});
    if (route.has_file) {
      fault = ReadFile(state, chunks, &*links, sink);
    } else if (route.leader == ctx.rank()) {
      Relay(ctx, chunks, route.followers.empty() ? nullptr : neighbours.ring(), &*links, sink);
    } else {
      Follow(ctx, chunks, neighbours.ring(), sink);
    }
  });
  return fault;
}

// What a rank tells the other ranks about its part. Empty: no fault.
std::string ToText(const std::optional<StreamFault>& fault, const std::string& damaged_tensor) {
  if (!fault && damaged_tensor.empty()) return "";
  nlohmann::json report = {{"tensor", damaged_tensor}};
  if (fault && fault->unavailable) {
    const UnavailableError& e = *fault->unavailable;
    report["unavailable"] = {e.what(), e.error(), e.offset(), e.size()};
  } else if (fault) {
    report["damage"] = fault->damage;
  }
  return report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::optional<StreamFault> StreamState(const Context& ctx, const FoundState& state,
                                       std::vector<StatePart> parts) {
  const std::vector<StateChunk> chunks = ChunksOf(parts);
  StateSink sink(std::move(parts));
  const auto own = ctx.world_size() == 1 ? ReadFile(state, chunks, nullptr, &sink)
                                         : Stream(ctx, state, chunks, &sink);
  std::optional<StreamFault> fault;
  std::string first;  // the first tensor that does not match its hash
  int first_rank = 0;
  const std::vector<std::string> all = all_gather_object(ctx, ToText(own, sink.damaged()));
  for (int rank = static_cast<int>(all.size()) - 1; rank >= 0; --rank) {
    if (all[static_cast<std::size_t>(rank)].empty()) continue;
    const auto report = nlohmann::json::parse(all[static_cast<std::size_t>(rank)]);
    if (report.contains("unavailable")) {
      const auto& e = report["unavailable"];
      fault.emplace().unavailable.emplace(e[0].get<std::string>(), e[1].get<int>(),
                                          e[2].get<std::uint64_t>(), e[3].get<std::size_t>());
    } else if (report.contains("damage")) {
      fault.emplace().damage = report["damage"];
    } else {
      first = report["tensor"];
      first_rank = rank;
      if (rank == state.source) fault.emplace().damage = "tensor " + first + " has a wrong hash";
    }
  }
  if (fault || first.empty()) return fault;
  throw AgreedError("rank " + std::to_string(first_rank) + ": after the restore, " + first +
                        " is not what the state's hash says, though the file of rank " +
                        std::to_string(state.source) + " is good",
                    first_rank, first_rank == ctx.rank());
}

}  // namespace ddp::internal
