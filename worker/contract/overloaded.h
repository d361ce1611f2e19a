// For std::visit: combines one lambda per alternative of a std::variant.
#ifndef DDPRUN_WORKER_CONTRACT_OVERLOADED_H_
#define DDPRUN_WORKER_CONTRACT_OVERLOADED_H_

namespace ddprun {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_OVERLOADED_H_
