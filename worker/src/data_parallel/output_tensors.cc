#include <c10/util/Type.h>
#include <ddp/errors.h>
#include <ddp/output_tensors.h>

#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace ddp::detail {
namespace {

void VisitTuple(c10::IValue& value, const TensorVisitor& visit) {
  const auto tuple = value.toTuple();
  std::vector<c10::IValue> elements(tuple->elements().begin(), tuple->elements().end());
  for (c10::IValue& element : elements) VisitIValue(element, visit);
  value = c10::ivalue::Tuple::createNamed(std::move(elements), tuple->type());
}

void VisitList(c10::IValue& value, const TensorVisitor& visit) {
  c10::List<c10::IValue> list = value.toList().copy();
  for (std::size_t i = 0; i < list.size(); ++i) {
    c10::IValue element = list.get(i);
    VisitIValue(element, visit);
    list.set(i, std::move(element));
  }
  value = std::move(list);
}

void VisitDict(c10::IValue& value, const TensorVisitor& visit) {
  c10::Dict<c10::IValue, c10::IValue> dict = value.toGenericDict().copy();
  for (const auto& entry : dict) {
    c10::IValue element = entry.value();
    VisitIValue(element, visit);
    entry.setValue(std::move(element));
  }
  value = std::move(dict);
}

}  // namespace

void VisitIValue(c10::IValue& value, const TensorVisitor& visit) {
  if (value.isTensor()) {
    torch::Tensor tensor = value.toTensor();
    visit(tensor);
    value = std::move(tensor);
  } else if (value.isTuple()) {
    VisitTuple(value, visit);
  } else if (value.isList()) {
    VisitList(value, visit);
  } else if (value.isGenericDict()) {
    VisitDict(value, visit);
  } else if (value.isObject() || value.isCustomClass() || value.isFuture()) {
    throw ConfigError("DistributedDataParallel: forward() returned an IValue of type " +
                      value.tagKind() +
                      ", into which the search for unused parameters does not look. Return "
                      "tensors, lists, tuples or dicts, or switch find_unused_parameters and "
                      "static_graph off");
  }
}

void ThrowUnknownOutput(const std::type_info& type) {
  throw ConfigError("DistributedDataParallel: forward() returned " + c10::demangle(type.name()) +
                    ", in which the search for unused parameters (find_unused_parameters, "
                    "static_graph) cannot find tensors. Specialize ddp::OutputTensors for that "
                    "type; <ddp/output_tensors.h> shows how");
}

}  // namespace ddp::detail
