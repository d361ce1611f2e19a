#include "worker/src/optimizer_state.h"

#include <ddp/errors.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/src/compat.h"

namespace ddp::internal {
namespace {

namespace optim = torch::optim;

// The fields of each optimizer's state: visit(name, field), where a field is a tensor, undefined
// while it is not in use, or a count. `State` may be const.
//
// A new optimizer needs its fields here and a line in WithState().
template <typename State, typename Visit>
requires std::is_base_of_v<optim::SGDParamState, State>
void VisitFields(State& state, const Visit& visit) {
  visit("momentum_buffer", state.momentum_buffer());
}

template <typename State, typename Visit>
requires(std::is_base_of_v<optim::AdamParamState, State> ||
         std::is_base_of_v<optim::AdamWParamState, State>) void VisitFields(State& state,
                                                                            const Visit& visit) {
  visit("step", state.step());
  visit("exp_avg", state.exp_avg());
  visit("exp_avg_sq", state.exp_avg_sq());
  visit("max_exp_avg_sq", state.max_exp_avg_sq());
}

template <typename State, typename Visit>
requires std::is_base_of_v<optim::RMSpropParamState, State>
void VisitFields(State& state, const Visit& visit) {
  visit("step", state.step());
  visit("square_avg", state.square_avg());
  visit("momentum_buffer", state.momentum_buffer());
  visit("grad_avg", state.grad_avg());
}

template <typename State, typename Visit>
requires std::is_base_of_v<optim::AdagradParamState, State>
void VisitFields(State& state, const Visit& visit) {
  visit("step", state.step());
  visit("sum", state.sum());
}

// Calls action(s) with a fresh state object of the optimizer's kind.
template <typename Action>
void WithState(const optim::Optimizer& optimizer, const Action& action) {
  if (dynamic_cast<const optim::SGD*>(&optimizer) != nullptr) {
    action(optim::SGDParamState());
  } else if (dynamic_cast<const optim::Adam*>(&optimizer) != nullptr) {
    action(optim::AdamParamState());
  } else if (dynamic_cast<const optim::AdamW*>(&optimizer) != nullptr) {
    action(optim::AdamWParamState());
  } else if (dynamic_cast<const optim::RMSprop*>(&optimizer) != nullptr) {
    action(optim::RMSpropParamState());
  } else if (dynamic_cast<const optim::Adagrad*>(&optimizer) != nullptr) {
    action(optim::AdagradParamState());
  } else {
    throw CheckpointError(
        "the state of this optimizer cannot be saved; SGD, Adam, AdamW, RMSprop and Adagrad can");
  }
}

std::vector<torch::Tensor> AllParameters(const optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> all;
  for (const optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    all.insert(all.end(), group.params().begin(), group.params().end());
  }
  return all;
}

std::string FieldName(std::size_t parameter, const std::string& field) {
  return std::to_string(parameter) + "." + field;
}

struct ExportField {
  std::size_t parameter;
  std::vector<NamedTensor>* out;
  void operator()(const char* name, const torch::Tensor& tensor) const {
    if (tensor.defined()) out->push_back({FieldName(parameter, name), tensor});
  }
  void operator()(const char* name, const std::int64_t& count) const {
    out->push_back({FieldName(parameter, name), torch::tensor(count)});
  }
};

struct ImportField {
  std::size_t parameter;
  torch::Device device;
  const std::map<std::string, torch::Tensor>& state;
  bool* found;
  void operator()(const char* name, torch::Tensor& tensor) const {
    const auto entry = state.find(FieldName(parameter, name));
    if (entry == state.end()) return;
    tensor = entry->second.to(device);
    *found = true;
  }
  void operator()(const char* name, std::int64_t& count) const {
    const auto entry = state.find(FieldName(parameter, name));
    if (entry == state.end()) return;
    count = entry->second.item<std::int64_t>();
    *found = true;
  }
};

// Collects the names a state may have, with an example of the right shape and dtype.
struct ExpectField {
  std::size_t parameter;
  const torch::Tensor& like;
  std::map<std::string, torch::Tensor>* expected;
  void operator()(const char* name, const torch::Tensor&) const {
    (*expected)[FieldName(parameter, name)] = like;
  }
  void operator()(const char* name, const std::int64_t&) const {
    (*expected)[FieldName(parameter, name)] = torch::tensor(std::int64_t{0});
  }
};

}  // namespace

std::vector<NamedTensor> ExportOptimizerState(const optim::Optimizer& optimizer) {
  std::vector<NamedTensor> result;
  const std::vector<torch::Tensor> parameters = AllParameters(optimizer);
  WithState(optimizer, [&](const auto& example) {
    using State = std::decay_t<decltype(example)>;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& all = optimizer.state();
      const auto entry = all.find(compat::OptimizerStateKey(all, parameters[i]));
      if (entry == all.end()) continue;
      VisitFields(static_cast<const State&>(*entry->second), ExportField{i, &result});
    }
  });
  return result;
}

std::string OptimizerStateMismatch(const optim::Optimizer& optimizer,
                                   const std::map<std::string, torch::Tensor>& state) {
  const std::vector<torch::Tensor> parameters = AllParameters(optimizer);
  std::map<std::string, torch::Tensor> expected;
  WithState(optimizer, [&](auto example) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      VisitFields(example, ExpectField{i, parameters[i], &expected});
    }
  });
  for (const auto& [name, tensor] : state) {
    const auto entry = expected.find(name);
    if (entry == expected.end()) {
      return "it holds optim." + name + ", which this optimizer (of " +
             std::to_string(parameters.size()) + " parameters) has not";
    }
    if (Describe(tensor) != Describe(entry->second)) {
      return "it holds optim." + name + " as " + Describe(tensor) + ", this optimizer needs " +
             Describe(entry->second);
    }
  }
  return "";
}

void ImportOptimizerState(optim::Optimizer& optimizer,
                          const std::map<std::string, torch::Tensor>& state) {
  const std::vector<torch::Tensor> parameters = AllParameters(optimizer);
  optimizer.state().clear();
  WithState(optimizer, [&](const auto& example) {
    using State = std::decay_t<decltype(example)>;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      auto restored = std::make_unique<State>();
      bool found = false;
      VisitFields(*restored, ImportField{i, parameters[i].device(), state, &found});
      if (!found) continue;
      auto& all = optimizer.state();
      all[compat::OptimizerStateKey(all, parameters[i])] = std::move(restored);
    }
  });
}

}  // namespace ddp::internal
