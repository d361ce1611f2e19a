// Exchanges weights with other programs, above all Python's.
//
//   ddp::load_into(*net, ddp::load_state_dict("resnet.pt"));            // torch.save(state_dict)
//   ddp::save_state_dict(ddp::state_dict(*net), "net.safetensors");     // Python reads it
//
// Loading treats a file as data: it runs no code from the file, and refuses a file that claims more
// than it contains before allocating memory for it. So a file may come from an untrusted source.
//
// No function here is a collective. To start a job from a file, load the file on rank 0 into the
// module that you then give to DistributedDataParallel, which gives rank 0's values to all ranks.
// Any thread may call these functions, each with its own tensors.
#ifndef DDP_STATE_DICT_H_
#define DDP_STATE_DICT_H_

#include <torch/nn/module.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <string>
#include <vector>

namespace ddp {

// Name -> tensor, in order; the type that Module::named_parameters() returns.
using StateDict = torch::OrderedDict<std::string, torch::Tensor>;

enum class StateDictFormat {
  kByName,       // kSafetensors if the path ends in ".safetensors", else kPyTorch
  kPyTorch,      // like torch.save(OrderedDict); torch.load reads it, also with weights_only=True
  kSafetensors,  // https://github.com/huggingface/safetensors
};

// Reads the tensors of a file, on the CPU, with the dtypes and strides that they were saved with;
// on which device they were does not matter. Of tensors that shared a storage in a PyTorch file
// (views, tied weights), those loaded share one again. The file is one of
//   - torch.save(state_dict) of Python, since PyTorch 1.6: a dict or OrderedDict;
//   - torch.save of anything made of dicts, lists, tensors, text and numbers: names are then the
//     keys on the way, joined by '.': "model.0.weight"; what is no tensor is left out. Numbers,
//     None and the like inside of a state_dict ("extra state") are left out as well;
//   - torch::save of a C++ module or list of tensors, torch::pickle_save of a dict of tensors;
//   - safetensors, of any program; also Checkpointer's, whose names begin with "model.", "optim.".
//
// The content decides which kind it is. Names are those in the file: load_into() drops `module.`.
// Throws CheckpointError if the file cannot be opened or read, is of none of these kinds, is
// damaged, asks for anything but tensors, or has sparse or quantized tensors or a dtype that this
// libtorch lacks. Reference: torch/serialization.py (torch.load).
StateDict load_state_dict(const std::string& path);

// Writes `dict` atomically: under a temporary name, synced, then renamed, so that `path` has either
// its old or its new content. Creates the folder. Tensors may be on any device and have any
// strides, but must be dense. Gradients and requires_grad are not saved. kPyTorch keeps views, and
// saves a shared storage once, like torch.save, and whole: also for a small view of a large
// storage. kSafetensors writes each tensor separately, and has no complex128.
//
// Throws CheckpointError for a tensor that the format cannot hold (by name), or with the disk's
// error.
void save_state_dict(const StateDict& dict, const std::string& path,
                     StateDictFormat format = StateDictFormat::kByName);

// Parameters and buffers of `module` and its children, detached, not copied, with the names and the
// order of Python's Module.state_dict() (torch/nn/modules/module.py). A tensor with two names
// appears twice, as in Python. C++ modules have no non-persistent buffers, so all buffers are
// included.
StateDict state_dict(const torch::nn::Module& module);

// The entries whose names begin with `prefix`, without the prefix; shares the tensors. For example
// for a checkpoint of Python, torch.save({"model": model.state_dict(), "epoch": 3}):
// with_prefix(load_state_dict(path), "model.").
StateDict with_prefix(const StateDict& dict, const std::string& prefix);

// Names that a non-strict load ignored.
struct IncompatibleKeys {
  std::vector<std::string> missing;     // in the module, not in the dict
  std::vector<std::string> unexpected;  // in the dict, not in the module
};

// Copies the tensors of `dict` in place into the parameters and buffers of the same name,
// converting to their devices and dtypes. Like Python's Module.load_state_dict, but all or nothing.
// The prefix "module." that Python's DistributedDataParallel adds is dropped if every name of the
// dict has it, unless every name of the module has it too; "my_module.x" is not changed.
//
// Throws StateDictMismatch, and changes nothing, if a shape differs or, with `strict`, the names
// differ.
IncompatibleKeys load_into(torch::nn::Module& module, const StateDict& dict, bool strict = true);

}  // namespace ddp

#endif  // DDP_STATE_DICT_H_
