// std::visit with one lambda per alternative.
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
