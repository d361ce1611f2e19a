#include "worker/src/formats/torch_archive.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "worker/src/formats/dtype.h"
#include "worker/src/formats/format_error.h"
#include "worker/src/formats/pickle_reader.h"
#include "worker/src/formats/zip_directory.h"

namespace ddp::internal {
namespace {

using Kind = Pickle::Kind;
using Value = Pickle::Value;
using Items = std::span<const Value>;

constexpr int kMaxDepth = 64;          // of nested dicts
constexpr int kMaxWrappers = 4;        // around a tensor
constexpr std::size_t kMaxKey = 4096;  // bytes
// Limits of the index. If a pickle gives a tensor a second name, the index needs about twenty times
// as many bytes for this name as the pickle.
constexpr std::size_t kIndexBytesPerByte = 32;
constexpr std::size_t kMaxIndexBytes = std::size_t{256} << 20;

// The globals that a pickle may use, each with its arguments.
enum Global : std::int64_t {
  kOrderedDict,     // ()
  kTensorV2,        // (storage, offset, shape, strides, requires_grad, hooks[, metadata])
  kTensorV3,        // (storage, offset, shape, strides, requires_grad, hooks, dtype[, metadata])
  kParameter,       // (tensor, requires_grad, hooks[, state])
  kTagged,          // (value, its type in TorchScript)
  kTypedList,       // (list)
  kSize,            // (tuple)
  kIgnored,         // anything; it contains no tensor
  kScriptClass,     // (): a TorchScript module
  kUntypedStorage,  // a type
  kTypedStorage,    // a type; add the number of its Dtype
  kDtype = kTypedStorage + static_cast<std::int64_t>(kDtypes.size()),  // plus the Dtype's number
};

std::int64_t ResolveTorch(std::string_view name) {
  const auto number = [](Global first, const DtypeInfo* info) {
    return first + static_cast<std::int64_t>(info->dtype);
  };
  if (const DtypeInfo* const info = FindDtype(&DtypeInfo::storage, name)) {
    return number(kTypedStorage, info);
  }
  if (const DtypeInfo* const info = FindDtype(&DtypeInfo::torch_object, name)) {
    return number(kDtype, info);
  }
  if (name == "Size") return kSize;
  if (name == "device") return kIgnored;
  return -1;
}

// Only the globals that torch.save writes for tensors are allowed.
std::int64_t ResolveGlobal(std::string_view module, std::string_view name) {
  static const auto* const kNames = new std::unordered_map<std::string_view, std::int64_t>{
      {"collections.OrderedDict", kOrderedDict},
      {"torch._utils._rebuild_tensor_v2", kTensorV2},
      {"torch._utils._rebuild_tensor_v3", kTensorV3},
      {"torch._utils._rebuild_parameter", kParameter},
      {"torch._utils._rebuild_parameter_with_state", kParameter},
      {"torch.storage.UntypedStorage", kUntypedStorage},
      {"torch.jit._pickle.restore_type_tag", kTagged},
      {"torch.jit._pickle.build_tensorlist", kTypedList},
      {"torch.jit._pickle.build_intlist", kTypedList},
      {"torch.jit._pickle.build_doublelist", kTypedList},
      {"torch.jit._pickle.build_boollist", kTypedList}};
  if (module == "torch" || module == "torch.cuda") return ResolveTorch(name);
  if (module == "__torch__" || module.substr(0, 10) == "__torch__.") return kScriptClass;
  if (module.size() + name.size() > 100) return -1;
  const auto found = kNames->find(std::string(module) + "." + std::string(name));
  return found == kNames->end() ? -1 : found->second;
}

class Indexer {
 public:
  Indexer(std::string_view pickle, const ReadStorage& read)
      : pickle_(pickle, ResolveGlobal),
        read_(read),
        visits_left_(pickle.size() + 1),
        name_bytes_left_(pickle.size() * 16 + 65536),
        index_bytes_left_(std::min(pickle.size() * kIndexBytesPerByte + 65536, kMaxIndexBytes)) {}

  TensorIndex Run() {
    const Value& root = pickle_.root();
    if (IsTensor(root)) throw FormatError("it holds a tensor, not a state_dict");
    const Value& content = Untagged(root);
    if (content.kind != Kind::kDict && content.kind != Kind::kCall && content.kind != Kind::kList &&
        content.kind != Kind::kTuple) {
      throw FormatError("it does not hold a state_dict");
    }
    Flatten(root, "", 0);
    return std::move(index_);
  }

 private:
  bool Calls(const Value& value, std::int64_t global) const {
    return value.kind == Kind::kCall && pickle_.callee(value) == global;
  }

  bool IsTensor(const Value& value) const {
    return Calls(value, kTensorV2) || Calls(value, kTensorV3) || Calls(value, kParameter);
  }

  // Removes the wrapper with which TorchScript records the type of a dict or list.
  const Value& Untagged(const Value& value) const {
    const Value* inner = &value;
    for (int i = 0; i < kMaxWrappers; ++i) {
      if (!Calls(*inner, kTagged) && !Calls(*inner, kTypedList)) break;
      if (pickle_.arguments(*inner).empty()) throw FormatError("its pickle has an empty wrapper");
      inner = &pickle_.arguments(*inner)[0];
    }
    return *inner;
  }

  // Two containers may hold the same container, and a container may hold itself. So a few bytes of
  // a pickle can stand for a huge number of tensors. Therefore both depth and visits are limited.
  void Flatten(const Value& tagged, const std::string& name, int depth) {
    if (depth > kMaxDepth) throw FormatError("its pickle is nested too deep");
    if (visits_left_ == 0) throw FormatError("its pickle refers too often to the same things");
    --visits_left_;
    const Value& value = Untagged(tagged);
    if (IsTensor(value)) {
      AddTensor(value, name);
    } else if (value.kind == Kind::kDict || Calls(value, kOrderedDict)) {
      FlattenDict(pickle_.items(value), name, depth);
    } else if (Calls(value, kScriptClass)) {
      FlattenDict(pickle_.state(value), name, depth);
    } else if (value.kind == Kind::kList || value.kind == Kind::kTuple) {
      std::size_t number = 0;
      for (const Value& item : pickle_.items(value)) {
        Flatten(item, Join(name, std::to_string(number++)), depth + 1);
      }
    }
  }

  void FlattenDict(Items items, const std::string& name, int depth) {
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const Value& key = items[i];
      if (key.kind == Kind::kText) {
        Flatten(items[i + 1], Join(name, key.text), depth + 1);
      } else if (key.kind == Kind::kInt) {
        Flatten(items[i + 1], Join(name, std::to_string(key.number)), depth + 1);
      } else {
        throw FormatError("it holds a dict with keys that are neither text nor numbers");
      }
    }
  }

  std::string Join(const std::string& name, std::string_view key) {
    const std::size_t size = name.size() + 1 + key.size();
    if (key.size() > kMaxKey || size > name_bytes_left_) {
      throw FormatError("its pickle has too long names");
    }
    name_bytes_left_ -= size;
    return name.empty() ? std::string(key) : name + "." + std::string(key);
  }

  void AddTensor(const Value& outer, const std::string& name) {
    const Value* value = &outer;
    for (int i = 0; i < kMaxWrappers && Calls(*value, kParameter); ++i) {
      if (pickle_.arguments(*value).empty()) break;
      value = &pickle_.arguments(*value)[0];
    }
    const auto fail = [&](const std::string& what) {
      throw FormatError("tensor " + Quoted(name) + " " + what);
    };
    const bool has_dtype = Calls(*value, kTensorV3);
    if (!has_dtype && !Calls(*value, kTensorV2)) fail("is not made as tensors are");
    const Items arguments = pickle_.arguments(*value);
    const std::size_t metadata = has_dtype ? 7 : 6;
    if (arguments.size() < metadata || arguments.size() > metadata + 1) {
      fail("has " + std::to_string(arguments.size()) + " arguments");
    }
    if (arguments.size() > metadata && !NoneSet(arguments[metadata])) {
      fail("is a conjugate or negative view: call resolve_conj() and resolve_neg() before saving");
    }
    if (arguments[1].kind != Kind::kInt) fail("has no offset");
    TensorView view;
    view.name = name;
    view.offset = arguments[1].number;
    view.shape = Integers(arguments[2], name);
    view.strides = Integers(arguments[3], name);
    std::optional<Dtype> dtype;
    if (has_dtype) {
      dtype = DtypeOf(arguments[6], kDtype);
      if (!dtype) fail("has no known dtype");
    }
    view.storage = StorageOf(arguments[0], dtype, name);
    const StorageView& storage = index_.storages[view.storage];
    const std::size_t element = InfoOf(storage.dtype).size;
    CheckView(view, storage.bytes.size() / element, element);
    // Includes the memory of names_.
    const std::size_t size = 2 * (sizeof view + name.size()) +
                             (view.shape.size() + view.strides.size()) * sizeof view.shape[0];
    if (size > index_bytes_left_) throw FormatError("its pickle stands for too many tensors");
    index_bytes_left_ -= size;
    if (!names_.insert(name).second) fail("is there twice");
    index_.tensors.push_back(std::move(view));
  }

  // True if no flag of the dict is True.
  bool NoneSet(const Value& value) const {
    const Items items = pickle_.items(value);
    return std::none_of(items.begin(), items.end(), [](const Value& item) {
      return item.kind == Kind::kBool && item.number != 0;
    });
  }

  std::vector<std::int64_t> Integers(const Value& value, const std::string& name) const {
    const Value* tuple = &value;
    if (Calls(value, kSize) && pickle_.arguments(value).size() == 1) {
      tuple = &pickle_.arguments(value)[0];
    }
    const Items items = pickle_.items(*tuple);
    if (tuple->kind != Kind::kTuple || items.size() > kMaxDimensions) {
      throw FormatError("tensor " + Quoted(name) + " has no shape");
    }
    std::vector<std::int64_t> integers;
    for (const Value& item : items) {
      if (item.kind != Kind::kInt) throw FormatError("tensor " + Quoted(name) + " has no shape");
      integers.push_back(item.number);
    }
    return integers;
  }

  static std::optional<Dtype> DtypeOf(const Value& value, Global first) {
    const std::int64_t number = value.number - first;
    if (value.kind != Kind::kGlobal || number < 0 ||
        number >= static_cast<std::int64_t>(kDtypes.size())) {
      return std::nullopt;
    }
    return kDtypes[static_cast<std::size_t>(number)].dtype;
  }

  // The storage of ("storage", its type, its key, a device, its elements). The device does not
  // matter, because everything is read to memory. `dtype` is used for an untyped storage.
  std::size_t StorageOf(const Value& value, std::optional<Dtype> dtype, const std::string& name) {
    const auto fail = [&](const std::string& what) {
      throw FormatError("tensor " + Quoted(name) + " " + what);
    };
    if (value.kind != Kind::kPersistent) fail("has no storage");
    const Value& tuple = pickle_.items(value)[0];
    const Items id = pickle_.items(tuple);
    if (tuple.kind != Kind::kTuple || id.size() != 5 || id[0].kind != Kind::kText ||
        id[0].text != "storage" || id[2].kind != Kind::kText || id[4].kind != Kind::kInt ||
        id[4].number < 0) {
      fail("has a storage that is not described as such");
    }
    std::size_t element = 1;
    if (id[1].kind != Kind::kGlobal || id[1].number != kUntypedStorage) {
      const std::optional<Dtype> typed = DtypeOf(id[1], kTypedStorage);
      if (!typed || (dtype && *dtype != *typed)) fail("has a storage without a known dtype");
      dtype = typed;
      element = InfoOf(*typed).size;
    }
    if (!dtype) fail("has no dtype");
    std::uint64_t size = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(id[4].number), element, &size)) {
      fail("has a storage of an impossible size");
    }
    const auto known = storages_.find(id[2].text);
    const std::size_t number = known == storages_.end() ? index_.storages.size() : known->second;
    if (known == storages_.end()) {
      storages_[id[2].text] = number;
      index_.storages.push_back({read_(id[2].text), *dtype});
    } else if (index_.storages[number].dtype != *dtype) {
      fail("shares its storage with a tensor of another dtype");
    }
    if (size > index_.storages[number].bytes.size()) {
      fail("has a storage of " + std::to_string(size) + " bytes, but the file has only " +
           std::to_string(index_.storages[number].bytes.size()));
    }
    return number;
  }

  const Pickle pickle_;
  const ReadStorage& read_;
  std::size_t visits_left_;
  std::size_t name_bytes_left_;
  std::size_t index_bytes_left_;
  TensorIndex index_;
  std::unordered_map<std::string_view, std::size_t> storages_;  // by key
  std::unordered_set<std::string> names_;
};

}  // namespace

TensorIndex IndexTorchPickle(std::string_view pickle, const ReadStorage& read) {
  return Indexer(pickle, read).Run();
}

TensorIndex IndexTorchArchive(std::string_view file) {
  const ZipDirectory zip(file);
  const std::string folder = std::string(zip.folder()) + "/";
  TensorIndex index = IndexTorchPickle(zip.Read(folder + "data.pkl"), [&](std::string_view key) {
    return zip.Read(folder + "data/" + std::string(key));
  });
  if (zip.Has(folder + "byteorder")) {
    const std::string_view order = zip.Read(folder + "byteorder");
    if (order != "little" && order != "big") {
      throw FormatError("its byte order is " + Quoted(order) + ", expected little or big");
    }
    index.big_endian = order == "big";
  }
  return index;
}

}  // namespace ddp::internal
