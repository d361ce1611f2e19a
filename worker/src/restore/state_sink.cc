#include "worker/src/restore/state_sink.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "worker/src/agent/progress.h"
#include "worker/src/base/streaming_copy.h"
#include "worker/src/formats/safetensors.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kSmallBytes = std::size_t{256} << 10;   // smaller tensors share chunks
constexpr std::size_t kCachedBytes = std::size_t{128} << 10;  // bytes hashed and copied at a time

constexpr std::size_t kPieceBytes = kMaxChunkBytes;  // bytes per copy to a GPU

bool IsInPlace(const StatePart& part) { return part.to.is_cpu() && part.to.is_contiguous(); }
bool IsInPieces(const StatePart& part) { return !part.to.is_cpu() && part.to.is_contiguous(); }

}  // namespace

std::vector<StateChunk> ChunksOf(const std::vector<StatePart>& parts) {
  std::vector<StateChunk> chunks;
  std::size_t offset = 0;
  bool open = false;  // the last chunk may take more parts
  for (const StatePart& part : parts) {
    const bool small = part.bytes < kSmallBytes;
    if (open && small && chunks.back().bytes + part.bytes <= kSmallBytes) {
      chunks.back().bytes += part.bytes;
    } else {
      for (std::size_t done = 0; done < part.bytes;) {
        const std::size_t size = std::min(kMaxChunkBytes, part.bytes - done);
        chunks.push_back({offset + done, size});
        done += size;
      }
      open = small && part.bytes > 0;
    }
    offset += part.bytes;
  }
  return chunks;
}

StateSink::StateSink(std::vector<StatePart> parts) : parts_(std::move(parts)) {
  for (const StatePart& part : parts_) {
    offsets_.push_back(bytes_);
    bytes_ += part.bytes;
  }
  Begin();
}

void StateSink::Begin() {
  for (; next_ < parts_.size(); ++next_) {
    const StatePart& part = parts_[next_];
    hash_.Reset();
    taken_ = 0;
    if (part.bytes == 0) {
      Finish();
      continue;
    }
    to_ = nullptr;
    whole_ = torch::Tensor();
    if (!part.to.defined()) return;
    whole_ = IsInPlace(part) || IsInPieces(part)
                 ? part.to
                 : torch::empty(part.to.sizes(), part.to.options().device(torch::kCPU));
    if (!IsInPieces(part)) to_ = static_cast<std::byte*>(whole_.data_ptr());
    return;
  }
}

void StateSink::Finish() {
  const StatePart& part = parts_[next_];
  if (damaged_.empty() && HashText(hash_.Digest()) != part.hash) {
    damaged_ = part.name;
  }
  if (part.bytes > 0 && whole_.defined() && !whole_.is_same(part.to)) {
    const torch::NoGradGuard no_grad;
    torch::Tensor to = part.to;
    to.copy_(whole_);
  }
}

std::byte* StateSink::Place(const StateChunk& chunk) const {
  // The last part that begins at this offset or before it. Empty parts precede it.
  const auto after = std::upper_bound(offsets_.begin(), offsets_.end(), chunk.offset);
  if (after == offsets_.begin()) return nullptr;
  const auto index = static_cast<std::size_t>(after - offsets_.begin()) - 1;
  const StatePart& part = parts_[index];
  const std::size_t begin = chunk.offset - offsets_[index];
  if (!part.to.defined() || !IsInPlace(part) || begin + chunk.bytes > part.bytes) return nullptr;
  return static_cast<std::byte*>(part.to.data_ptr()) + begin;
}

void StateSink::ToDevice(const std::byte* data, std::size_t size) {
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(size);
  if (!pinned_.defined()) {
    pinned_ = torch::empty({static_cast<std::int64_t>(kPieceBytes)},
                           torch::TensorOptions(torch::kUInt8).pinned_memory(true));
  }
  std::memcpy(pinned_.data_ptr(), data, size);
  whole_.view({-1})
      .view(torch::kUInt8)
      .narrow(0, static_cast<std::int64_t>(taken_), count)
      .copy_(pinned_.narrow(0, 0, count));
}

void StateSink::Take(const std::byte* data, std::size_t size) {
  Progress::Process().Move();
  while (size > 0) {
    const bool in_pieces = to_ == nullptr && whole_.defined();
    const std::size_t piece =
        std::min({size, parts_[next_].bytes - taken_, in_pieces ? kPieceBytes : kCachedBytes});
    hash_.Update(data, piece);  // first, because the copy then reads from the cache
    if (in_pieces) {
      ToDevice(data, piece);
    } else if (to_ != nullptr && to_ + taken_ != data) {
      StreamingCopy(to_ + taken_, data, piece);
    }
    data += piece;
    size -= piece;
    taken_ += piece;
    if (taken_ < parts_[next_].bytes) continue;
    Finish();
    ++next_;
    Begin();
  }
}

}  // namespace ddp::internal
