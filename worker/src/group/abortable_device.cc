#include "worker/src/group/abortable_device.h"

#include <gloo/common/error.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ddp::internal {

namespace transport = gloo::transport;
using std::chrono::milliseconds;

// Also knows the pairs (connections) until all of them are connected. Any thread.
class GlooBuffers {
 public:
  // `buffer` must exist until Remove().
  void Add(transport::UnboundBuffer* buffer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    buffers_.insert(buffer);
  }

  void Remove(transport::UnboundBuffer* buffer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    buffers_.erase(buffer);
  }

  // Calls `make`, which makes a pair. The pair must exist until Remove().
  void AddPair(const std::function<transport::Pair*()>& make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Check();
    pairs_.insert(make());
  }

  void Remove(transport::Pair* pair) {
    const std::lock_guard<std::mutex> lock(mutex_);
    pairs_.erase(pair);
  }

  void Connected() {
    const std::lock_guard<std::mutex> lock(mutex_);
    pairs_.clear();
  }

  void Abort() {
    aborted_ = true;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (transport::Pair* const pair : pairs_) pair->close();  // wakes threads in connect()
    for (transport::UnboundBuffer* const buffer : buffers_) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }

  // Calls `wait`, which waits on an added buffer. Gloo's collectives ignore the result of a wait,
  // so an abort must throw. A buffer remembers an abort until somebody waits on it. So an abort
  // between the check and `wait` is not lost.
  template <typename Wait>
  bool Throwing(const Wait& wait) const {
    Check();
    const bool done = wait();
    Check();
    return done;
  }

 private:
  void Check() const {
    if (aborted_) throw gloo::IoException("the rank leaves the group, and its collectives end");
  }

  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::unordered_set<transport::UnboundBuffer*> buffers_;  // guarded by mutex_
  std::unordered_set<transport::Pair*> pairs_;             // guarded by mutex_
};

namespace {

class AbortableBuffer final : public transport::UnboundBuffer {
 public:
  AbortableBuffer(std::unique_ptr<transport::UnboundBuffer> buffer,
                  std::shared_ptr<GlooBuffers> all)
      : UnboundBuffer(buffer->ptr, buffer->size), all_(std::move(all)), buffer_(std::move(buffer)) {
    all_->Add(buffer_.get());
  }
  ~AbortableBuffer() override { all_->Remove(buffer_.get()); }

  bool waitRecv(int* rank, milliseconds timeout) override {
    return all_->Throwing([&] { return buffer_->waitRecv(rank, timeout); });
  }
  bool waitSend(int* rank, milliseconds timeout) override {
    return all_->Throwing([&] { return buffer_->waitSend(rank, timeout); });
  }

  void abortWaitRecv() override { buffer_->abortWaitRecv(); }
  void abortWaitSend() override { buffer_->abortWaitSend(); }

  void send(int rank, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    buffer_->send(rank, slot, offset, bytes);
  }
  void recv(int rank, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    buffer_->recv(rank, slot, offset, bytes);
  }
  void recv(std::vector<int> ranks, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    buffer_->recv(std::move(ranks), slot, offset, bytes);
  }

 private:
  const std::shared_ptr<GlooBuffers> all_;
  const std::unique_ptr<transport::UnboundBuffer> buffer_;
};

#if __has_include(<gloo/common/store.h>)
// Gloo passes the store by reference; newer versions pass a shared_ptr.
template <typename Store>
Store StoreOf(void (transport::Context::*)(Store));
using StoreOfPairs = decltype(StoreOf(&transport::Context::createAndConnectAllPairs));
#endif

class AbortableContext final : public transport::Context {
 public:
  AbortableContext(std::shared_ptr<transport::Context> context, std::shared_ptr<GlooBuffers> all)
      : Context(context->rank, context->size), all_(std::move(all)), context_(std::move(context)) {}
  ~AbortableContext() override {
    for (transport::Pair* const pair : made_) all_->Remove(pair);
  }

  std::unique_ptr<transport::Pair>& getPair(int rank) override { return context_->getPair(rank); }

  // setTimeout() is not virtual, and callers have called it on this object. So pass its value on.
  std::unique_ptr<transport::Pair>& createPair(int rank) override {
    context_->setTimeout(getTimeout());
    all_->AddPair([&] {
      made_.push_back(context_->createPair(rank).get());
      return made_.back();
    });
    return context_->getPair(rank);
  }

#if __has_include(<gloo/common/store.h>)
  void createAndConnectAllPairs(StoreOfPairs store) override {
    context_->setTimeout(getTimeout());
    context_->createAndConnectAllPairs(std::forward<StoreOfPairs>(store));
  }
#endif

  std::unique_ptr<transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                std::size_t size) override {
    return std::make_unique<AbortableBuffer>(context_->createUnboundBuffer(data, size), all_);
  }

 private:
  const std::shared_ptr<GlooBuffers> all_;
  const std::shared_ptr<transport::Context> context_;
  std::vector<transport::Pair*> made_;
};

}  // namespace

AbortableDevice::AbortableDevice(const std::function<std::shared_ptr<transport::Device>()>& make)
    : buffers_(std::make_shared<GlooBuffers>()) {
  loops_ = GlooLoops::Of([&] { device_ = make(); });
}

AbortableDevice::~AbortableDevice() = default;

void AbortableDevice::Connected() { buffers_->Connected(); }

void AbortableDevice::Abort() {
  buffers_->Abort();
  loops_.ShutDown();
}

std::string AbortableDevice::str() const { return device_->str(); }

const std::string& AbortableDevice::getPCIBusID() const { return device_->getPCIBusID(); }

int AbortableDevice::getInterfaceSpeed() const { return device_->getInterfaceSpeed(); }

bool AbortableDevice::hasGPUDirect() const { return device_->hasGPUDirect(); }

std::shared_ptr<transport::Context> AbortableDevice::createContext(int rank, int size) {
  std::shared_ptr<transport::Context> context = device_->createContext(rank, size);
#ifdef DDPRUN_GLOO_FITS
  context = std::make_shared<AbortableContext>(std::move(context), buffers_);
#endif
  return context;
}

}  // namespace ddp::internal
