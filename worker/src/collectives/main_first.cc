#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <ddp/main_first.h>
#include <unistd.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <ostream>
#include <string>

#include "worker/src/group/failure.h"

namespace ddp {
namespace {

bool IsMain(const Context& ctx, Main main) {
  return (main == Main::kJob ? ctx.rank() : ctx.local_rank()) == 0;
}

}  // namespace

void main_first(const Context& ctx, const std::function<void()>& body, Main main) {
  const bool is_main = IsMain(ctx, main);
  std::exception_ptr thrown;
  std::string error;
  if (is_main) {
    try {
      body();
    } catch (...) {
      thrown = std::current_exception();
      error = internal::Describe(thrown, ctx.rank()).text;
      if (error.empty()) error = "an exception without a text";
    }
  }
  try {
    throw_if_any_failed(ctx, error);
  } catch (const AgreedError&) {
    if (thrown) std::rethrow_exception(thrown);
    throw;
  }
  if (!is_main) body();
}

MainFirst::MainFirst(const Context& ctx, Main main)
    : ctx_(ctx), is_main_(IsMain(ctx, main)), exceptions_at_start_(std::uncaught_exceptions()) {
  if (!is_main_) throw_if_any_failed(ctx_, "");
}

MainFirst::~MainFirst() noexcept(false) {
  if (!is_main_) return;
  if (std::uncaught_exceptions() == exceptions_at_start_) {
    throw_if_any_failed(ctx_, "");
    return;
  }
  try {
    throw_if_any_failed(ctx_, "left its MainFirst section by an exception; its log has the cause");
  } catch (const std::exception&) {
    // The exception that is already unwinding is the cause.
  }
}

void log_rank0(const Context& ctx, const std::string& text) {
  if (ctx.rank() != 0) return;
  const std::string line = text + "\n";
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t size = write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (size <= 0) return;  // stderr cannot be written
    done += static_cast<std::size_t>(size);
  }
}

std::ostream& on_rank0(const Context& ctx, std::ostream& out) {
  thread_local std::ostream nowhere(nullptr);
  return ctx.rank() == 0 ? out : nowhere;
}

}  // namespace ddp
