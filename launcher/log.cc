#include "launcher/log.h"

#define SPDLOG_HEADER_ONLY
#define FMT_HEADER_ONLY
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "launcher/text/printable.h"

namespace ddprun {
namespace {

// The base class's mutex guards the formatter, which keeps the second that it formatted last.
// ConsoleWriter has its own lock.
class ConsoleSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ConsoleSink(std::shared_ptr<ConsoleWriter> console) : console_(std::move(console)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    console_->Write("", std::string_view(line.data(), line.size()));
  }
  void flush_() override {}

 private:
  const std::shared_ptr<ConsoleWriter> console_;
};

void Log(spdlog::level::level_enum level, absl::string_view text) {
  spdlog::logger* const logger = spdlog::default_logger_raw();
  if (!logger->should_log(level)) return;
  const std::string line = Printable(text);
  logger->log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

void InitLog(std::shared_ptr<ConsoleWriter> console, int verbosity) {
  auto logger =
      std::make_shared<spdlog::logger>("ddprun", std::make_shared<ConsoleSink>(std::move(console)));
  logger->set_pattern("ddprun %H:%M:%S.%e %L %v");
  logger->set_level(verbosity < 0    ? spdlog::level::warn
                    : verbosity == 0 ? spdlog::level::info
                                     : spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

void LogDebug(absl::string_view text) { Log(spdlog::level::debug, text); }
void LogInfo(absl::string_view text) { Log(spdlog::level::info, text); }
void LogWarning(absl::string_view text) { Log(spdlog::level::warn, text); }
void LogError(absl::string_view text) { Log(spdlog::level::err, text); }

absl::string_view TextOfLogLine(absl::string_view line) {
  constexpr absl::string_view kStamp = "ddprun 00:00:00.000 E ";
  const bool stamped = line.size() > kStamp.size() && absl::StartsWith(line, "ddprun ") &&
                       line[kStamp.size() - 3] == ' ' && line[kStamp.size() - 1] == ' ';
  return stamped ? line.substr(kStamp.size()) : line;
}

}  // namespace ddprun
