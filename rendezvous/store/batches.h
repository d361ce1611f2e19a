// Batches that wait for a store. Internal to stores. Pure.
#ifndef DDPRUN_RENDEZVOUS_STORE_BATCHES_H_
#define DDPRUN_RENDEZVOUS_STORE_BATCHES_H_

#include <cstddef>
#include <vector>

#include "rendezvous/store/store.h"

namespace ddprun {

// Of its keys and values, in memory.
std::size_t BytesOf(const Store::Batch& batch);

// One batch with the same effect as all of them, in their order; they are left empty.
Store::Batch Merge(std::vector<Store::Batch>& batches);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STORE_BATCHES_H_
