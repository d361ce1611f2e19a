#include "worker/src/state_stream.h"

#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <ddp/gather.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "worker/contract/environment.h"
#include "worker/src/chunk_ring.h"
#include "worker/src/failure.h"
#include "worker/src/state_route.h"

namespace ddp::internal {
namespace {

using WorkPtr = decltype(std::declval<c10d::ProcessGroup>().recv(
    std::declval<std::vector<torch::Tensor>&>(), 0, 0));

constexpr std::size_t kPlaces = 8;  // chunks under way
constexpr int kTag = 0x5afe;

torch::Tensor BytesAt(const std::byte* data, std::size_t size) {
  return torch::from_blob(const_cast<std::byte*>(data), {static_cast<std::int64_t>(size)},
                          torch::kUInt8);
}

std::size_t LargestOf(const std::vector<StateChunk>& chunks) {
  std::size_t largest = 0;
  for (const StateChunk& chunk : chunks) largest = std::max(largest, chunk.bytes);
  return largest;
}

std::string RingPath(const Context& ctx) {
  const char* const folder = std::getenv(ddprun::env::kSnapshotDir);
  return std::string(folder == nullptr ? "/dev/shm" : folder) + "/.ddp-restore-" +
         std::to_string(getuid()) + "-" + std::to_string(getpid()) + "-" +
         std::to_string(ctx.rank());
}

// Who shares memory with whom: agreed by all ranks, since a rank that cannot needs another route.
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
    // One rank alone cannot know whether anybody needs a ring, but all know the same.
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
    if (leads && !path.empty()) unlink(path.c_str());  // all have it open who ever will
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

// A rank's own memory for chunks under way, got as it is needed.
class OwnPlaces {
 public:
  std::byte* Of(std::size_t chunk) {
    std::unique_ptr<std::byte[]>& place = places_[chunk % kPlaces];
    if (place == nullptr) place.reset(new std::byte[kMaxChunkBytes]);
    return place.get();
  }

 private:
  std::array<std::unique_ptr<std::byte[]>, kPlaces> places_;
};

// The messages to a rank's children, of which a few may be under way.
class Sender {
 public:
  Sender(const Context& ctx, std::vector<int> children)
      : ctx_(ctx), children_(std::move(children)) {}

  // `data` must stay as it is until WaitBefore(chunk + 1) has returned.
  void Send(std::size_t chunk, const std::byte* data, std::size_t size) {
    for (const int child : children_) {
      std::vector<torch::Tensor> message = {BytesAt(data, size)};
      sent_.push_back({chunk, ctx_.process_group()->send(message, child, kTag), message[0]});
    }
  }
  // Until all of the chunks before `chunk` have been sent.
  void WaitBefore(std::size_t chunk) {
    while (!sent_.empty() && sent_.front().chunk < chunk) {
      sent_.front().work->wait();
      sent_.pop_front();
    }
  }

 private:
  struct Message {
    std::size_t chunk;
    WorkPtr work;
    torch::Tensor bytes;
  };
  const Context& ctx_;
  const std::vector<int> children_;
  std::deque<Message> sent_;
};

// The source's, and its neighbours' who read the file too: from there into their tensors, and from
// those, where they are in one piece, to the children.
void ReadFile(const Context& ctx, const StateRoute& route, const FoundState& state,
              const std::vector<StateChunk>& chunks, StateSink* sink) {
  Sender sender(ctx, route.children);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const StateChunk& chunk = chunks[i];
    const std::byte* const from = state.bytes() + chunk.offset;
    const std::byte* const place = sink->Place(chunk);  // in memory that is mapped already
    sink->Take(from, chunk.bytes);
    if (i >= kPlaces) sender.WaitBefore(i - kPlaces + 1);
    sender.Send(i, place == nullptr ? from : place, chunk.bytes);
  }
  sender.WaitBefore(chunks.size());
}

[[noreturn]] void SilentNeighbour(const Context& ctx) {
  throw std::runtime_error("a rank of this node did nothing for " +
                           std::to_string(ctx.timeout().count() / 1000) + " s");
}

// A leader's: from its parent to its children, its followers, and its own tensors.
class Relay {
 public:
  Relay(const Context& ctx, const StateRoute& route, const std::vector<StateChunk>& chunks,
        ChunkRing* ring, StateSink* sink)
      : ctx_(ctx),
        parent_(route.parent),
        chunks_(chunks),
        ring_(route.followers.empty() ? nullptr : ring),
        sink_(sink),
        sender_(ctx, route.children) {}

  void Run() {
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      while (posted_.size() < kPlaces && i + posted_.size() < chunks_.size()) {
        Post(i + posted_.size());
      }
      posted_.front().work->wait();
      const std::byte* const data = posted_.front().data;
      if (ring_ != nullptr) ring_->Publish(i);
      sender_.Send(i, data, chunks_[i].bytes);
      sink_->Take(data, chunks_[i].bytes);
      posted_.pop_front();
    }
    sender_.WaitBefore(chunks_.size());
  }

 private:
  struct Receive {
    WorkPtr work;
    std::byte* data;
    torch::Tensor bytes;
  };

  void Post(std::size_t chunk) {
    const std::size_t size = chunks_[chunk].bytes;
    std::byte* data = ring_ == nullptr ? sink_->Place(chunks_[chunk]) : nullptr;
    if (data == nullptr) {
      if (chunk >= kPlaces) sender_.WaitBefore(chunk - kPlaces + 1);
      data = PlaceOf(chunk);
    }
    std::vector<torch::Tensor> message = {BytesAt(data, size)};
    posted_.push_back({ctx_.process_group()->recv(message, parent_, kTag), data, message[0]});
  }

  std::byte* PlaceOf(std::size_t chunk) {
    if (ring_ != nullptr) {
      if (!ring_->WaitForPlace(chunk, ctx_.timeout())) SilentNeighbour(ctx_);
      return ring_->place(chunk);
    }
    return own_.Of(chunk);
  }

  const Context& ctx_;
  const int parent_;
  const std::vector<StateChunk>& chunks_;
  ChunkRing* const ring_;
  StateSink* const sink_;
  Sender sender_;
  std::deque<Receive> posted_;
  OwnPlaces own_;
};

void Follow(const Context& ctx, const std::vector<StateChunk>& chunks, ChunkRing* ring,
            StateSink* sink) {
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (!ring->WaitForChunk(i, ctx.timeout())) SilentNeighbour(ctx);
    sink->Take(ring->place(i), chunks[i].bytes);
    ring->Release(i);
  }
}

void StreamByGloo(const Context& ctx, const FoundState& state,
                  const std::vector<StateChunk>& chunks, StateSink* sink) {
  ChunkRing::Shape shape;
  shape.places = std::min(kPlaces, chunks.size());
  shape.place_bytes = LargestOf(chunks);
  Neighbours neighbours(ctx, state.source, state.bytes() != nullptr, shape);
  const StateRoute route = neighbours.route();
  Collective("restoring the state", ctx.rank(), ctx.world_size(), [&] {
    if (route.has_file) {
      ReadFile(ctx, route, state, chunks, sink);
    } else if (route.leader == ctx.rank()) {
      Relay(ctx, route, chunks, neighbours.ring(), sink).Run();
    } else {
      Follow(ctx, chunks, neighbours.ring(), sink);
    }
  });
}

void StreamByBroadcast(const Context& ctx, const FoundState& state,
                       const std::vector<StateChunk>& chunks, StateSink* sink) {
  const torch::Tensor wire = torch::empty({static_cast<std::int64_t>(LargestOf(chunks))},
                                          torch::TensorOptions(torch::kUInt8).device(ctx.device()));
  Collective("restoring the state", ctx.rank(), ctx.world_size(), [&] {
    for (const StateChunk& chunk : chunks) {
      const auto size = static_cast<std::int64_t>(chunk.bytes);
      std::vector<torch::Tensor> message = {wire.narrow(0, 0, size)};
      if (ctx.rank() == state.source) {
        message[0].copy_(BytesAt(state.bytes() + chunk.offset, chunk.bytes));
      }
      c10d::BroadcastOptions options;
      options.rootRank = state.source;
      ctx.process_group()->broadcast(message, options)->wait();
      const torch::Tensor arrived = message[0].cpu();
      sink->Take(static_cast<const std::byte*>(arrived.data_ptr()), chunk.bytes);
    }
  });
}

}  // namespace

std::string StreamState(const Context& ctx, const FoundState& state, std::vector<StatePart> parts) {
  const std::vector<StateChunk> chunks = ChunksOf(parts);
  StateSink sink(std::move(parts));
  if (ctx.world_size() == 1) {
    sink.Take(state.bytes(), sink.bytes());
  } else if (!ctx.carries_cpu_tensors()) {
    StreamByBroadcast(ctx, state, chunks, &sink);
  } else {
    StreamByGloo(ctx, state, chunks, &sink);
  }
  std::string first;
  int first_rank = 0;
  const std::vector<std::string> all = all_gather_object(ctx, sink.damaged());
  for (int rank = static_cast<int>(all.size()) - 1; rank >= 0; --rank) {
    if (all[static_cast<std::size_t>(rank)].empty()) continue;
    first = all[static_cast<std::size_t>(rank)];
    first_rank = rank;
  }
  if (first.empty()) return "";
  const std::string& at_source = all[static_cast<std::size_t>(state.source)];
  if (!at_source.empty()) return "tensor " + at_source + " has a wrong hash";
  throw AgreedError("rank " + std::to_string(first_rank) + ": after the restore, " + first +
                        " is not what the state's hash says, though the file of rank " +
                        std::to_string(state.source) + " is good",
                    first_rank, first_rank == ctx.rank());
}

}  // namespace ddp::internal
