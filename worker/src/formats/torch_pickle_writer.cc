#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/src/formats/dtype.h"
#include "worker/src/formats/torch_archive.h"

// Writes protocol 2, like torch.save: every version of Python and PyTorch reads it. Python's
// pickletools describes the instructions.
namespace ddp::internal {
namespace {

class Writer {
 public:
  void Byte(char byte) { out_ += byte; }

  void Global(std::string_view module, std::string_view name) {
    out_ += 'c';
    out_ += module;
    out_ += '\n';
    out_ += name;
    out_ += '\n';
  }

  void Text(std::string_view text) {
    out_ += 'X';
    Number(text.size(), 4);
    out_ += text;
  }

  void Integer(std::int64_t value) {
    if (value >= 0 && value <= std::numeric_limits<std::uint8_t>::max()) {
      out_ += 'K';
      Number(static_cast<std::uint64_t>(value), 1);
    } else if (value >= 0 && value <= std::numeric_limits<std::int32_t>::max()) {
      out_ += 'J';
      Number(static_cast<std::uint64_t>(value), 4);
    } else {
      out_ += "\x8a\x08";  // an integer of 8 bytes
      Number(static_cast<std::uint64_t>(value), 8);
    }
  }

  void Tuple(const std::vector<std::int64_t>& values) {
    out_ += '(';
    for (const std::int64_t value : values) Integer(value);
    out_ += 't';
  }

  void EmptyOrderedDict() {
    Global("collections", "OrderedDict");
    out_ += ")R";
  }

  std::string Take() { return std::move(out_); }

 private:
  void Number(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
  }

  std::string out_;
};

void WriteStorage(const StorageView& storage, std::size_t number, Writer* out) {
  const DtypeInfo& info = InfoOf(storage.dtype);
  const bool typed = !info.storage.empty();
  out->Byte('(');
  out->Text("storage");
  if (typed) {
    out->Global("torch", info.storage);
  } else {
    out->Global("torch.storage", "UntypedStorage");
  }
  out->Text(std::to_string(number));
  out->Text("cpu");
  out->Integer(static_cast<std::int64_t>(storage.bytes.size() / (typed ? info.size : 1)));
  out->Byte('t');
  out->Byte('Q');
}

void WriteTensor(const TensorView& tensor, const StorageView& storage, Writer* out) {
  const DtypeInfo& info = InfoOf(storage.dtype);
  const bool typed = !info.storage.empty();
  out->Global("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out->Byte('(');
  WriteStorage(storage, tensor.storage, out);
  out->Integer(tensor.offset);
  out->Tuple(tensor.shape);
  out->Tuple(tensor.strides);
  out->Byte('\x89');  // requires_grad: False
  out->EmptyOrderedDict();
  if (!typed) out->Global("torch", info.torch_object);
  out->Byte('t');
  out->Byte('R');
}

}  // namespace

std::string WriteTorchPickle(const TensorIndex& index) {
  Writer out;
  out.Byte('\x80');
  out.Byte('\x02');
  out.EmptyOrderedDict();
  out.Byte('(');
  for (const TensorView& tensor : index.tensors) {
    out.Text(tensor.name);
    WriteTensor(tensor, index.storages[tensor.storage], &out);
  }
  out.Byte('u');
  out.Byte('.');
  return out.Take();
}

}  // namespace ddp::internal
