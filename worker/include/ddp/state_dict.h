// Functions that exchange weights with other programs, above all with Python programs.
//
//   ddp::load_into(*net, ddp::load_state_dict("resnet.pt"));            // torch.save(state_dict)
//   ddp::save_state_dict(ddp::state_dict(*net), "net.safetensors");     // Python reads it
//
// Loading treats a file as data and runs no code from it. If a file claims more data than it
// contains, loading refuses it before it allocates memory for that data. So a file may come from an
// untrusted source.
//
// No function here is a collective. To start a job from a file, load the file on rank 0 into the
// module. Then give the module to DistributedDataParallel, which sends rank 0's values to all
// ranks. Any thread may call these functions, but two threads must not use the same tensors.
#ifndef DDP_STATE_DICT_H_
#define DDP_STATE_DICT_H_

#include <torch/nn/module.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <string>
#include <vector>

namespace ddp {

// Names and their tensors, in order. Module::named_parameters() returns the same type.
using StateDict = torch::OrderedDict<std::string, torch::Tensor>;

enum class StateDictFormat {
  kByName,       // kSafetensors if the path ends in ".safetensors", else kPyTorch
  kPyTorch,      // like torch.save(OrderedDict); torch.load reads it, also with weights_only=True
  kSafetensors,  // https://github.com/huggingface/safetensors
};

// Reads the tensors of a file into CPU memory, also if they were saved from a GPU. They keep their
// dtypes and strides. If tensors shared a storage in a PyTorch file (views, tied weights), the
// loaded tensors share a storage too. The file may be
//   - torch.save(state_dict) of Python, PyTorch 1.6 or newer: a dict or OrderedDict;
//   - torch.save of any object made of dicts, lists, tensors, text and numbers. The name of a
//     tensor is then the path of keys to it, joined by '.', for example "model.0.weight".
//     Everything that is not a tensor is left out, also in a state_dict ("extra state");
//   - torch::save of a C++ module or of a list of tensors, or torch::pickle_save of a dict of
//     tensors;
//   - a safetensors file of any program. In a file of Checkpointer the names begin with "model."
//     and "optim.".
//
// The function finds out the kind from the content of the file. It keeps the names of the file.
// (load_into() drops `module.`.) Throws CheckpointError if the file cannot be opened or read, is of
// none of these kinds, or is damaged. Also throws it for objects of other classes, for sparse or
// quantized tensors, and for a dtype that this libtorch lacks. Reference: torch/serialization.py
// (torch.load).
StateDict load_state_dict(const std::string& path);

// Writes `dict` to the file `path`, and creates the folder. It writes to a temporary name, syncs
// the file, and then renames it. So `path` always has either its old or its new content. Tensors
// may be on any device and have any strides, but must be dense. Gradients and requires_grad are not
// saved.
//
// kPyTorch keeps views. Like torch.save, it saves a shared storage only once. It always saves the
// whole storage, even for a small view of a large storage. kSafetensors writes each tensor
// separately, and cannot hold complex128.
//
// Throws CheckpointError if the format cannot hold a tensor (the text names it), or with the error
// of the disk. Throws CollectiveError if an aborted collective may have spoiled tensors on GPUs.
void save_state_dict(const StateDict& dict, const std::string& path,
                     StateDictFormat format = StateDictFormat::kByName);

// Returns the parameters and buffers of `module` and its children. They are detached, not copied.
// Names and order are those of Python's Module.state_dict() (torch/nn/modules/module.py). A tensor
// with two names appears twice, as in Python. C++ modules have no non-persistent buffers, so all
// buffers are included.
StateDict state_dict(const torch::nn::Module& module);

// Returns the entries of `dict` whose names begin with `prefix`, and removes the prefix from the
// names. The tensors are shared, not copied. Example, for a Python checkpoint made with
// torch.save({"model": model.state_dict(), "epoch": 3}): with_prefix(load_state_dict(path),
// "model.").
StateDict with_prefix(const StateDict& dict, const std::string& prefix);

// Names that a non-strict load ignored.
struct IncompatibleKeys {
  std::vector<std::string> missing;     // in the module, not in the dict
  std::vector<std::string> unexpected;  // in the dict, not in the module
};

// Copies the tensors of `dict` into the parameters and buffers of the same names, in place. It
// converts them to the devices and dtypes of the module. Like Python's Module.load_state_dict, but
// it loads either everything or nothing.
//
// Python's DistributedDataParallel adds the prefix "module." to names. If every name of the dict
// has this prefix, it is dropped, unless every name of the module has it too. "my_module.x" is not
// changed.
//
// Throws StateDictMismatch, and changes nothing, if a shape differs. With `strict` it also does so
// if the names differ.
IncompatibleKeys load_into(torch::nn::Module& module, const StateDict& dict, bool strict = true);

}  // namespace ddp

#endif  // DDP_STATE_DICT_H_
