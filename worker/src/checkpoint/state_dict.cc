#include <ddp/errors.h>
#include <ddp/state_dict.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp {
namespace {

constexpr std::string_view kWrapperPrefix = "module.";  // added by Python's DDP
constexpr std::size_t kMaxNamed = 50;                   // names of each kind in an error text

template <typename Dict>
void AddDefined(const std::string& prefix, const Dict& tensors, StateDict* result) {
  for (const auto& item : tensors) {
    if (item.value().defined()) result->insert(prefix + item.key(), item.value().detach());
  }
}

void Collect(const torch::nn::Module& module, const std::string& prefix, StateDict* result) {
  AddDefined(prefix, module.named_parameters(/*recurse=*/false), result);
  AddDefined(prefix, module.named_buffers(/*recurse=*/false), result);
  for (const auto& child : module.named_children()) {
    Collect(*child.value(), prefix + child.key() + ".", result);
  }
}

bool AllBegin(const StateDict& dict, std::string_view prefix) {
  return !dict.is_empty() && std::all_of(dict.begin(), dict.end(), [&](const auto& item) {
    return item.key().compare(0, prefix.size(), prefix) == 0;
  });
}

std::string ShapeText(const torch::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

// For example "; 2 missing (the model has them): a, b".
std::string Listed(const std::vector<std::string>& names, const std::string& what) {
  if (names.empty()) return "";
  std::string text = "; " + std::to_string(names.size()) + " " + what + ": ";
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMaxNamed) {
    text += " and " + std::to_string(names.size() - kMaxNamed) + " more";
  }
  return text;
}

}  // namespace

StateDict state_dict(const torch::nn::Module& module) {
  StateDict result;
  Collect(module, "", &result);
  return result;
}

StateDict with_prefix(const StateDict& dict, const std::string& prefix) {
  StateDict result;
  for (const auto& item : dict) {
    if (item.key().compare(0, prefix.size(), prefix) == 0) {
      result.insert(item.key().substr(prefix.size()), item.value());
    }
  }
  return result;
}

IncompatibleKeys load_into(torch::nn::Module& module, const StateDict& given, bool strict) {
  const StateDict targets = state_dict(module);
  const bool wrapped = AllBegin(given, kWrapperPrefix) && !AllBegin(targets, kWrapperPrefix);
  const StateDict dict = wrapped ? with_prefix(given, std::string(kWrapperPrefix)) : given;

  IncompatibleKeys keys;
  std::vector<std::string> wrong_shape;
  std::vector<std::string> wrong_shape_text;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> copies;  // from, into
  for (const auto& target : targets) {
    const torch::Tensor* const value = dict.find(target.key());
    if (value == nullptr || !value->defined()) {
      keys.missing.push_back(target.key());
    } else if (value->sizes() != target.value().sizes()) {
      wrong_shape.push_back(target.key());
      wrong_shape_text.push_back(target.key() + " is " + ShapeText(*value) + ", the model has " +
                                 ShapeText(target.value()));
    } else {
      copies.emplace_back(*value, target.value());
    }
  }
  for (const auto& item : dict) {
    if (!targets.contains(item.key())) keys.unexpected.push_back(item.key());
  }
  if (!wrong_shape.empty() || (strict && !(keys.missing.empty() && keys.unexpected.empty()))) {
    const std::string text = "the state_dict does not fit the model" +
                             Listed(keys.missing, "missing from it") +
                             Listed(keys.unexpected, "unexpected, the model has no such") +
                             Listed(wrong_shape_text, "of the wrong shape");
    throw StateDictMismatch(text, keys.missing, keys.unexpected, wrong_shape);
  }
  const torch::NoGradGuard no_grad;
  for (auto& [from, into] : copies) into.copy_(from);
  return keys;
}

}  // namespace ddp
