// The element types of tensors in files, and the types' names in each format.
#ifndef DDPRUN_WORKER_SRC_FORMATS_DTYPE_H_
#define DDPRUN_WORKER_SRC_FORMATS_DTYPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddp::internal {

// In the same order as kDtypes.
enum class Dtype : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  kC64,
  kC128,
  kU16,
  kU32,
  kU64,
  kF8E4M3,
  kF8E5M2,
};

struct DtypeInfo {
  Dtype dtype;
  std::size_t size;               // bytes of an element
  std::size_t number_size;        // bytes that a change of byte order reverses: one number
  std::string_view safetensors;   // "" if the format does not have the type
  std::string_view storage;       // class of typed storage in Python module torch, or ""
  std::string_view torch_object;  // object in Python module torch
};

inline constexpr std::array<DtypeInfo, 17> kDtypes = {{
    {Dtype::kF64, 8, 8, "F64", "DoubleStorage", "float64"},
    {Dtype::kF32, 4, 4, "F32", "FloatStorage", "float32"},
    {Dtype::kF16, 2, 2, "F16", "HalfStorage", "float16"},
    {Dtype::kBF16, 2, 2, "BF16", "BFloat16Storage", "bfloat16"},
    {Dtype::kI64, 8, 8, "I64", "LongStorage", "int64"},
    {Dtype::kI32, 4, 4, "I32", "IntStorage", "int32"},
    {Dtype::kI16, 2, 2, "I16", "ShortStorage", "int16"},
    {Dtype::kI8, 1, 1, "I8", "CharStorage", "int8"},
    {Dtype::kU8, 1, 1, "U8", "ByteStorage", "uint8"},
    {Dtype::kBool, 1, 1, "BOOL", "BoolStorage", "bool"},
    {Dtype::kC64, 8, 4, "C64", "ComplexFloatStorage", "complex64"},
    {Dtype::kC128, 16, 8, "", "ComplexDoubleStorage", "complex128"},
    {Dtype::kU16, 2, 2, "U16", "", "uint16"},
    {Dtype::kU32, 4, 4, "U32", "", "uint32"},
    {Dtype::kU64, 8, 8, "U64", "", "uint64"},
    {Dtype::kF8E4M3, 1, 1, "F8_E4M3", "", "float8_e4m3fn"},
    {Dtype::kF8E5M2, 1, 1, "F8_E5M2", "", "float8_e5m2"},
}};

inline constexpr const DtypeInfo& InfoOf(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)];
}

// The type whose `field` has this name, for example FindDtype(&DtypeInfo::safetensors, "F32").
// Null: no such type.
inline const DtypeInfo* FindDtype(std::string_view DtypeInfo::*field, std::string_view name) {
  if (name.empty()) return nullptr;
  for (const DtypeInfo& info : kDtypes) {
    if (info.*field == name) return &info;
  }
  return nullptr;
}

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_DTYPE_H_
