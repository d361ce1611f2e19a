#include <caffe2/serialize/inline_container.h>
#include <ddp/errors.h>
#include <ddp/state_dict.h>
#include <torch/utils.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/src/compat/compat.h"
#include "worker/src/formats/dtype.h"
#include "worker/src/formats/file_content.h"
#include "worker/src/formats/format_error.h"
#include "worker/src/formats/safetensors.h"
#include "worker/src/formats/tensor_index.h"
#include "worker/src/formats/torch_archive.h"
#include "worker/src/group/failure.h"
#include "worker/src/storage/durable_file.h"

namespace ddp {
namespace {

using internal::Dtype;
using internal::DtypeInfo;
using internal::FileContent;
using internal::FormatError;
using internal::StorageView;
using internal::TensorIndex;
using internal::TensorView;

constexpr bool kBigEndianHost = std::endian::native == std::endian::big;

// ---- load ----

// Copies the bytes of a storage to new memory. The caller may write to the tensors, and the tensors
// must not depend on the file.
torch::Tensor CopyStorage(const StorageView& storage, bool swap) {
  const std::size_t size = storage.bytes.size();
  torch::Tensor copy = torch::empty({static_cast<std::int64_t>(size)}, torch::kUInt8);
  auto* const bytes = static_cast<unsigned char*>(copy.data_ptr());
  if (size > 0) std::memcpy(bytes, storage.bytes.data(), size);
  const std::size_t number = internal::InfoOf(storage.dtype).number_size;
  if (swap && number > 1) {
    for (std::size_t i = 0; i + number <= size; i += number) {
      std::reverse(bytes + i, bytes + i + number);
    }
  }
  // In C++ a bool that is neither 0 nor 1 is undefined behaviour.
  if (storage.dtype == Dtype::kBool) {
    std::transform(bytes, bytes + size, bytes, [](unsigned char byte) { return byte != 0; });
  }
  return copy;
}

// `index` describes `file`. Releases the file's memory piece by piece, so the state is in memory
// only about once.
StateDict MakeTensors(const TensorIndex& index, FileContent* file) {
  std::vector<torch::ScalarType> types;
  for (const TensorView& view : index.tensors) {
    const DtypeInfo& info = internal::InfoOf(index.storages[view.storage].dtype);
    const auto type = compat::ScalarTypeOf(info.dtype);
    if (!type) {
      throw FormatError("tensor " + internal::Quoted(view.name) + " has dtype " +
                        std::string(info.torch_object) + ", which this libtorch does not have");
    }
    types.push_back(*type);
  }
  std::vector<torch::Tensor> storages;
  for (const StorageView& storage : index.storages) {
    storages.push_back(CopyStorage(storage, index.big_endian != kBigEndianHost));
    file->Forget(storage.bytes);
  }
  StateDict dict;
  dict.reserve(index.tensors.size());
  for (std::size_t i = 0; i < index.tensors.size(); ++i) {
    const TensorView& view = index.tensors[i];
    torch::Tensor tensor = torch::empty({0}, types[i]);
    tensor.set_(storages[view.storage].storage(), view.offset, view.shape, view.strides);
    dict.insert(view.name, std::move(tensor));
  }
  return dict;
}

// ---- save ----

const DtypeInfo& DtypeOf(const std::string& name, const torch::Tensor& tensor) {
  for (const DtypeInfo& info : internal::kDtypes) {
    if (compat::ScalarTypeOf(info.dtype) == tensor.scalar_type()) return info;
  }
  throw CheckpointError("tensor '" + name + "' has a dtype that a file cannot hold: " +
                        c10::toString(tensor.scalar_type()));
}

// The tensors in a form that a file can hold: dense, detached, not lazily conjugated, with a valid
// name.
StateDict Checked(const StateDict& dict) {
  StateDict result;
  for (const auto& item : dict) {
    const torch::Tensor& tensor = item.value();
    const std::string name = "tensor " + internal::Quoted(item.key());
    try {
      nlohmann::json(item.key()).dump();
    } catch (const nlohmann::json::exception&) {
      throw CheckpointError(name + " has a name that is not UTF-8");
    }
    if (!tensor.defined()) throw CheckpointError(name + " is undefined");
    if (tensor.layout() != torch::kStrided || tensor.is_quantized() || !tensor.has_storage()) {
      throw CheckpointError(name + " is sparse, quantized or otherwise not dense");
    }
    result.insert(item.key(), tensor.detach().resolve_conj().resolve_neg());
  }
  return result;
}

void SaveSafetensors(const StateDict& dict, const std::string& folder, const std::string& name) {
  std::vector<torch::Tensor> alive;  // owns the bytes behind TensorBytes
  std::vector<internal::TensorBytes> tensors;
  for (const auto& item : dict) {
    const DtypeInfo& info = DtypeOf(item.key(), item.value());
    if (info.safetensors.empty()) {
      throw CheckpointError("tensor '" + item.key() + "' has a dtype that safetensors has not: " +
                            std::string(info.torch_object));
    }
    alive.push_back(item.value().cpu().contiguous());
    tensors.push_back({{item.key(), std::string(info.safetensors), alive.back().sizes().vec()},
                       alive.back().data_ptr(),
                       static_cast<std::size_t>(alive.back().numel()) * info.size});
  }
  // Python's libraries read "format" to learn which framework made these tensors.
  const std::string header = internal::BuildHeader(&tensors, {{"format", "pt"}});
  std::vector<std::string_view> pieces = {header};
  for (const internal::TensorBytes& tensor : tensors) {
    pieces.emplace_back(static_cast<const char*>(tensor.data), tensor.size);
  }
  internal::ThrowIfGroupIsLost();  // an abort may have left arbitrary values in GPU tensors
  internal::WriteDurably(folder, name, pieces);
}

// All bytes of the storage behind `tensor`, in CPU memory.
torch::Tensor BytesOf(const torch::Tensor& tensor) {
  const auto size = static_cast<std::int64_t>(tensor.storage().nbytes());
  torch::Tensor bytes = torch::empty({0}, tensor.options().dtype(torch::kUInt8));
  bytes.set_(tensor.storage(), 0, {size}, {1});
  return bytes.cpu();
}

void SavePyTorch(const StateDict& dict, const std::string& folder, const std::string& name) {
  std::vector<torch::Tensor> alive;  // the bytes of index.storages
  TensorIndex index;
  std::map<std::pair<const void*, Dtype>, std::size_t> numbers;
  for (const auto& item : dict) {
    const torch::Tensor& tensor = item.value();
    const Dtype dtype = DtypeOf(item.key(), tensor).dtype;
    const auto [number, added] =
        numbers.insert({{tensor.storage().unsafeGetStorageImpl(), dtype}, index.storages.size()});
    if (added) {
      alive.push_back(BytesOf(tensor));
      const torch::Tensor& bytes = alive.back();
      index.storages.push_back(
          {{static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(bytes.numel())},
           dtype});
    }
    index.tensors.push_back({item.key(), number->second, tensor.storage_offset(),
                             tensor.sizes().vec(), tensor.strides().vec()});
  }
  const std::string pickle = internal::WriteTorchPickle(index);
  const std::string_view order = kBigEndianHost ? "big" : "little";
  internal::ThrowIfGroupIsLost();  // see SaveSafetensors
  internal::WriteDurably(folder, name, [&](const internal::Sink& sink) {
    // In torch 1.13 the destructor of a writer throws if the writer has seen a failure. That ends
    // the process. So failures are hidden from the writer, and the first failure is thrown after
    // the writer's destruction.
    std::exception_ptr failure;
    {
      caffe2::serialize::PyTorchStreamWriter zip([&](const void* bytes, std::size_t size) {
        try {
          if (!failure) sink({static_cast<const char*>(bytes), size});
        } catch (...) {
          failure = std::current_exception();
        }
        return size;
      });
      zip.writeRecord("data.pkl", pickle.data(), pickle.size());
      zip.writeRecord("byteorder", order.data(), order.size());
      for (std::size_t i = 0; i < index.storages.size(); ++i) {
        const std::string_view bytes = index.storages[i].bytes;
        zip.writeRecord("data/" + std::to_string(i), bytes.data(), bytes.size());
      }
      zip.writeEndOfFile();
    }
    if (failure) std::rethrow_exception(failure);
  });
}

}  // namespace

StateDict load_state_dict(const std::string& path) {
  try {
    FileContent file(path);
    return MakeTensors(internal::IndexTensorFile(file.bytes()), &file);
  } catch (const FormatError& e) {
    throw CheckpointError("cannot load " + path + ": " + e.what());
  }
}

void save_state_dict(const StateDict& dict, const std::string& path, StateDictFormat format) {
  const std::filesystem::path file(path);
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  const std::string name = file.filename().string();
  if (name.empty()) throw CheckpointError("cannot save to '" + path + "': it names no file");
  if (format == StateDictFormat::kByName) {
    format = file.extension() == ".safetensors" ? StateDictFormat::kSafetensors
                                                : StateDictFormat::kPyTorch;
  }
  const StateDict checked = Checked(dict);
  if (format == StateDictFormat::kSafetensors) {
    SaveSafetensors(checked, folder, name);
  } else {
    SavePyTorch(checked, folder, name);
  }
}

}  // namespace ddp
