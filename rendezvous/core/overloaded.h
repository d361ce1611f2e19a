// std::visit with one lambda per alternative.
#ifndef DDPRUN_RENDEZVOUS_CORE_OVERLOADED_H_
#define DDPRUN_RENDEZVOUS_CORE_OVERLOADED_H_

namespace ddprun {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_OVERLOADED_H_
