// Helpers for batches that wait for a store. Internal to stores. Pure.
#ifndef DDPRUN_RENDEZVOUS_STORE_BATCHES_H_
#define DDPRUN_RENDEZVOUS_STORE_BATCHES_H_

#include <cstddef>
#include <vector>

#include "rendezvous/store/store.h"

namespace ddprun {

// Size of the batch's keys and values in memory.
std::size_t BytesOf(const Store::Batch& batch);

// Makes one batch with the same effect as all `batches` in their order. Leaves `batches` empty.
Store::Batch Merge(std::vector<Store::Batch>& batches);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STORE_BATCHES_H_
