// Reads the files that PyTorch writes: torch.save of Python (since 1.6), torch::save and
// torch::pickle_save of C++, TorchScript modules. A zip file with one folder: data.pkl, a pickle in
// which tensors refer to storages; data/0, data/1, ..., their bytes; byteorder, since 2.1.
// Reference: torch/serialization.py, torch/_utils.py, torch/csrc/jit/serialization/pickler.cpp.
//
// libtorch's own readers are not used. Its unpickler would run nothing either, but it takes sizes
// from the file for what to allocate, makes views that it has not compared with their storage
// (set_ checks only that the storage has room, and resizes it where it has not), compiles the
// TorchScript of an archive, and cannot be fuzzed without all of libtorch.
#ifndef DDPRUN_WORKER_SRC_FORMATS_TORCH_ARCHIVE_H_
#define DDPRUN_WORKER_SRC_FORMATS_TORCH_ARCHIVE_H_

#include <functional>
#include <string>
#include <string_view>

#include "worker/src/formats/tensor_index.h"

namespace ddp::internal {

// The tensors of a dict, in its order. Of dicts, lists and modules inside of it, too: a name is
// then the keys on the way joined by '.', as in "model.0.weight". What is no tensor is left out.
// `file` must outlive what is returned. Throws FormatError.
TensorIndex IndexTorchArchive(std::string_view file);

// The same for the pickle alone. `read` gives the bytes of a storage, by its name in the pickle, or
// throws FormatError.
using ReadStorage = std::function<std::string_view(std::string_view key)>;
TensorIndex IndexTorchPickle(std::string_view pickle, const ReadStorage& read);

// What IndexTorchPickle() reads and Python's torch.load: the pickle of an OrderedDict of
// `index.tensors`, whose storages are "0", "1", ...
std::string WriteTorchPickle(const TensorIndex& index);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_TORCH_ARCHIVE_H_
