#include "launcher/core/supervisor/node_work.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ddprun {

NodeWork::Worker* NodeWork::Find(LocalRank local_rank) {
  const auto index = static_cast<std::size_t>(local_rank.value);
  return index < workers.size() ? &workers[index] : nullptr;
}

std::vector<LocalRank> NodeWork::Alive() const {
  std::vector<LocalRank> alive;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].alive) alive.push_back(LocalRank{static_cast<int>(i)});
  }
  return alive;
}

std::vector<LocalRank> NodeWork::AliveHung() const {
  std::vector<LocalRank> alive = Alive();
  std::erase_if(alive, [this](LocalRank local_rank) {
    return std::find(hung.begin(), hung.end(), local_rank) == hung.end();
  });
  return alive;
}

std::vector<LocalRank> NodeWork::AliveOthers(bool that_stay) const {
  std::vector<LocalRank> alive = Alive();
  std::erase_if(alive, [&](LocalRank local_rank) {
    return workers[local_rank.value].stays != that_stay ||
           std::find(hung.begin(), hung.end(), local_rank) != hung.end();
  });
  return alive;
}

std::vector<LocalRank> NodeWork::AbleToSave() const {
  std::vector<LocalRank> able = Alive();
  std::erase_if(able, [this](LocalRank local_rank) {
    const Worker& worker = workers[local_rank.value];
    return !worker.speaks || !worker.saves;
  });
  return able;
}

std::vector<LocalRank> NodeWork::WithProgram() const {
  std::vector<LocalRank> running = Alive();
  std::erase_if(running,
                [this](LocalRank local_rank) { return workers[local_rank.value].starting; });
  return running;
}

bool NodeWork::AnyStarts() const {
  return std::any_of(workers.begin(), workers.end(),
                     [](const Worker& worker) { return worker.starting; });
}

std::string NodeWork::Describe(const std::vector<LocalRank>& some) const {
  return absl::StrJoin(some, ", ", [this](std::string* out, LocalRank local_rank) {
    const Worker& worker = workers[local_rank.value];
    absl::StrAppend(out, "rank ", RankOf(local_rank).value,
                    worker.starting ? " (being started)" : absl::StrCat(" (pid ", worker.pid, ")"));
  });
}

bool NodeWork::AwaitsErrorFile() const {
  return std::any_of(workers.begin(), workers.end(),
                     [](const Worker& worker) { return worker.ended.has_value(); });
}

bool NodeWork::MayBeExiting() const {
  return assignment.agent_store && std::all_of(workers.begin(), workers.end(),
                                               [](const Worker& worker) { return worker.stays; });
}

std::optional<std::int64_t> NodeWork::NewestStep() const {
  std::optional<std::int64_t> newest;
  for (const Worker& worker : workers) newest = std::max(newest, worker.step);
  return newest;
}

void NodeWork::Abandon() {
  for (Worker& worker : workers) {
    worker.alive = worker.starting = false;
    worker.ended.reset();
  }
}

WorkerExited NodeWork::ReportOf(LocalRank local_rank, ExitStatus status) const {
  const Worker& worker = workers[local_rank.value];
  WorkerExited report;
  report.rank = RankOf(local_rank);
  report.local_rank = local_rank;
  report.pid = worker.pid;
  report.status = status;
  report.step = worker.step;
  report.error_kind = worker.error_kind;
  report.error_text = worker.error_text;
  return report;
}

WorkerExited NodeWork::ReportOf(const SupervisorEvents::WorkerEnded& ended,
                                const std::string& error_file_text) const {
  WorkerExited report = ReportOf(ended.local_rank, ended.status);
  report.stderr_tail = ended.stderr_tail;
  report.ended_at_ms = ended.ended_at_ms;
  report.oom_killed = ended.oom_killed;
  if (report.error_text.empty()) report.error_text = error_file_text;
  return report;
}

}  // namespace ddprun
