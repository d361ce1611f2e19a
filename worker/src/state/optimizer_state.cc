#include "worker/src/state/optimizer_state.h"

#include <ddp/errors.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/src/compat/compat.h"

namespace ddp::internal {
namespace {

namespace optim = torch::optim;

// Calls visit(name, field) for each field of an optimizer's state. A field is a tensor (undefined
// while unused), a count, a number, or a list of tensors. `State` may be const.
//
// To support another optimizer, add its fields here and a line in WithState().
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

// LBFGS keeps everything in the state of the first parameter. `al` is not visited, because it is
// scratch memory of a step.
template <typename State, typename Visit>
requires std::is_base_of_v<optim::LBFGSParamState, State>
void VisitFields(State& state, const Visit& visit) {
  visit("func_evals", state.func_evals());
  visit("n_iter", state.n_iter());
  visit("t", state.t());
  visit("prev_loss", state.prev_loss());
  visit("d", state.d());
  visit("H_diag", state.H_diag());
  visit("prev_flat_grad", state.prev_flat_grad());
  visit("old_dirs", state.old_dirs());
  visit("old_stps", state.old_stps());
  visit("ro", state.ro());
}

// Calls action(s) with a new state object of the optimizer's kind.
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
  } else if (dynamic_cast<const optim::LBFGS*>(&optimizer) != nullptr) {
    action(optim::LBFGSParamState());
  } else {
    throw CheckpointError(
        "the state of this optimizer cannot be saved: it is none of libtorch's SGD, Adam, AdamW, "
        "RMSprop, Adagrad and LBFGS, and others do not let their state be read");
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
  void operator()(const char* name, const double& number) const {
    out->push_back({FieldName(parameter, name), torch::tensor(number, torch::kFloat64)});
  }
  void operator()(const char* name, const std::deque<torch::Tensor>& list) const {
    for (std::size_t i = 0; i < list.size(); ++i) {
      out->push_back({FieldName(parameter, name) + "." + std::to_string(i), list[i]});
    }
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
  void operator()(const char* name, double& number) const {
    const auto entry = state.find(FieldName(parameter, name));
    if (entry == state.end()) return;
    number = entry->second.item<double>();
    *found = true;
  }
  void operator()(const char* name, std::deque<torch::Tensor>& list) const {
    const std::string prefix = FieldName(parameter, name) + ".";
    for (auto entry = state.end();
         (entry = state.find(prefix + std::to_string(list.size()))) != state.end();) {
      list.push_back(entry->second.to(device));
    }
  }
};

// Collects the names that a state may have, each with a tensor of the expected shape and dtype.
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
  template <typename Other>
  void operator()(const char*, const Other&) const {}  // only LBFGS has other types
};

// LBFGS joins all parameters in one row. Returns why `state` does not fit; "": it fits.
std::string LbfgsMismatch(const std::vector<torch::Tensor>& parameters,
                          const std::map<std::string, torch::Tensor>& state) {
  std::int64_t row = 0;
  for (const torch::Tensor& parameter : parameters) row += parameter.numel();
  for (const auto& [name, tensor] : state) {
    const std::string field = name.substr(0, name.rfind('.', name.size() - 1));
    const auto is = [&](const char* known) { return name == FieldName(0, known); };
    const auto is_of = [&](const char* list) { return field == FieldName(0, list); };
    const bool is_row = is("d") || is("prev_flat_grad") || is_of("old_dirs") || is_of("old_stps");
    const bool is_number = is("func_evals") || is("n_iter") || is("t") || is("prev_loss") ||
                           is("H_diag") || is_of("ro");
    if (!is_row && !is_number) return "it holds optim." + name + ", which LBFGS has not";
    const std::int64_t expected = is_row ? row : 1;
    if (tensor.numel() != expected) {
      return "it holds optim." + name + " as " + Describe(tensor) + ", this optimizer needs " +
             std::to_string(expected) + " numbers";
    }
  }
  return "";
}

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
  if (dynamic_cast<const optim::LBFGS*>(&optimizer) != nullptr) {
    return LbfgsMismatch(parameters, state);
  }
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

std::vector<double> LearningRates(const optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    rates.push_back(group.options().get_lr());
  }
  return rates;
}

void SetLearningRates(optim::Optimizer& optimizer, const std::vector<double>& rates) {
  if (rates.empty()) return;
  std::size_t next = 0;
  for (optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    group.options().set_lr(rates[next++]);
  }
}

}  // namespace ddp::internal
