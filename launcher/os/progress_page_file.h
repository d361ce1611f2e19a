// The memory of one worker's progress page (worker/contract/progress_page.h). The agent makes and
// owns it; the worker writes it.
#ifndef DDPRUN_LAUNCHER_OS_PROGRESS_PAGE_FILE_H_
#define DDPRUN_LAUNCHER_OS_PROGRESS_PAGE_FILE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "worker/contract/progress.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

// A memfd of zeros, sealed against resizing, mapped here read-only. One thread.
class ProgressPageFile {
 public:
  // Errors: errno's.
  static absl::StatusOr<ProgressPageFile> Make();

  ProgressPageFile(ProgressPageFile&& other) noexcept;
  ProgressPageFile& operator=(ProgressPageFile&&) = delete;
  ~ProgressPageFile();

  // The descriptor to send to the worker.
  int descriptor() const { return fd_.get(); }

  // The worker's data, also after its death; nullopt: the worker has not taken the page yet.
  std::optional<ProgressSnapshot> Read() const;

 private:
  ProgressPageFile(UniqueFd fd, const void* page);

  UniqueFd fd_;
  const void* page_;  // null: moved from
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROGRESS_PAGE_FILE_H_
