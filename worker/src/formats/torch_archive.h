// Reads PyTorch's files: from Python's torch.save (since 1.6), from C++'s torch::save and
// torch::pickle_save, and TorchScript modules. Such a file is a zip with one folder. The folder
// contains data.pkl, a pickle in which tensors refer to storages; data/0, data/1, ..., the bytes of
// the storages; and byteorder (since 2.1). Reference: torch/serialization.py, torch/_utils.py,
// torch/csrc/jit/serialization/pickler.cpp.
//
// This code does not use libtorch's own readers. libtorch's unpickler runs nothing either, but it
// allocates sizes that the file claims. It makes views without comparing them with their storage
// (set_ only checks that the storage has room, and resizes it if not). It compiles the TorchScript
// of an archive. And it cannot be fuzzed without all of libtorch.
#ifndef DDPRUN_WORKER_SRC_FORMATS_TORCH_ARCHIVE_H_
#define DDPRUN_WORKER_SRC_FORMATS_TORCH_ARCHIVE_H_

#include <functional>
#include <string>
#include <string_view>

#include "worker/src/formats/tensor_index.h"

namespace ddp::internal {

// The tensors of the dict, list or module in `file`, in its order, including tensors in nested
// ones. A nested tensor's name is the keys joined by '.', for example "model.0.weight". Other
// values are skipped. `file` must outlive the result. Throws FormatError.
TensorIndex IndexTorchArchive(std::string_view file);

// Like IndexTorchArchive, for the pickle alone. `read` returns the bytes of the storage that the
// pickle calls `key`, or throws FormatError.
using ReadStorage = std::function<std::string_view(std::string_view key)>;
TensorIndex IndexTorchPickle(std::string_view pickle, const ReadStorage& read);

// Returns a pickle of an OrderedDict of `index.tensors`, with storages "0", "1", ...
// IndexTorchPickle() and Python's torch.load can read it.
std::string WriteTorchPickle(const TensorIndex& index);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_TORCH_ARCHIVE_H_
