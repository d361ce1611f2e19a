#include <ddp/run.h>

#include <exception>
#include <functional>
#include <string>

#include "worker/src/group/failure.h"

namespace ddp {

int run(const std::function<int()>& body) {
  try {
    const int code = body();
    internal::ThrowIfGroupIsLost();
    return code;
  } catch (...) {
    internal::EndWithFailure(std::current_exception());
  }
}

std::string explain(const std::exception& error) {
  return internal::Describe(error, internal::RankForMessages()).text;
}

}  // namespace ddp
