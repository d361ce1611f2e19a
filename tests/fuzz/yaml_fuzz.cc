// Any text is a job, or is refused with file, line and column. A job that is printed and read again
// is the same job.
#include <cstddef>
#include <cstdint>
#include <regex>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/config/job_printer.h"
#include "launcher/config/yaml_config.h"
#include "tests/fuzz/require.h"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {
namespace {

// "job.yaml:3:8: ", with numbers from 1 on.
bool HasPlace(const std::string& line) {
  static const std::regex place("job\\.yaml:[1-9][0-9]*:[1-9][0-9]*: .");
  return std::regex_search(line.substr(0, 60), place, std::regex_constants::match_continuous);
}

void Check(const std::string& text) {
  const FakeHost host;
  const absl::StatusOr<JobConfig> job = ParseJob(text, "job.yaml", host);
  if (!job.ok()) {
    const std::string error(job.status().message());
    Require(absl::IsInvalidArgument(job.status()), "a refusal is InvalidArgument", error);
    Require(!error.empty(), "a refusal has a reason");
    for (std::size_t start = 0; start <= error.size();) {
      const std::size_t end = std::min(error.find('\n', start), error.size());
      Require(HasPlace(error.substr(start, end - start)),
              "each line of a refusal has file, line and column", error);
      start = end + 1;
    }
    return;
  }
  const std::string printed = ToYaml(*job);
  const absl::StatusOr<JobConfig> again = ParseJob(printed, "job.yaml", host);
  Require(again.ok(), "a job that is printed loads", again.status().ToString() + "\n" + printed);
  Require(ToYaml(*again) == printed, "a job that is printed is the same job", printed);
  Require(ToJson(*again) == ToJson(*job), "a job that is printed is the same job", printed);
}

}  // namespace
}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::Check(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
