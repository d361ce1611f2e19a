// Translates the parts that several wire messages share. Internal to this folder; callers use
// translate.h and record.h.
#ifndef DDPRUN_RENDEZVOUS_WIRE_PARTS_H_
#define DDPRUN_RENDEZVOUS_WIRE_PARTS_H_

#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/v1/rendezvous.pb.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/machine/nodes/quarantine.h"
#include "rendezvous/wire/field_checker.h"

namespace ddprun::wire {

JobSpec ReadJobSpec(const v1::JobSpec& from, FieldChecker& check);
NodeSpec ReadNodeSpec(const v1::NodeSpec& from, int max_nodes, FieldChecker& check);
WorkerExited ReadWorkerExited(const v1::WorkerExited& from, FieldChecker& check);
RootCause ReadRootCause(const v1::RootCause& from, FieldChecker& check);
Finished ReadFinished(const v1::Finished& from, FieldChecker& check);
std::vector<SavedState> ReadStates(const google::protobuf::RepeatedPtrField<v1::SavedState>& from,
                                   FieldChecker& check);
std::vector<std::string> ReadExcluded(const google::protobuf::RepeatedPtrField<std::string>& from,
                                      FieldChecker& check);
FailedCheckpoints ReadFailed(const v1::FailedCheckpoints& from, std::int64_t max_count,
                             FieldChecker& check);
NodeProgress ReadProgress(const v1::NodeProgress& from, FieldChecker& check);
StuckProcesses ReadStuck(const v1::StuckProcesses& from, FieldChecker& check);
std::vector<EnteredCall> ReadCalls(const google::protobuf::RepeatedPtrField<v1::EnteredCall>& from,
                                   FieldChecker& check);
EncodedStackTree ReadStackTree(const v1::StackTree& from, FieldChecker& check);
HangStacks ReadHangStacks(const v1::HangStacks& from, FieldChecker& check);
LogOrder ReadLogOrder(const v1::LogOrder& from, FieldChecker& check);
LogPiece ReadLogPiece(const v1::LogPiece& from, FieldChecker& check);
std::vector<StackFrame> ReadFrames(const google::protobuf::RepeatedPtrField<v1::StackFrame>& from,
                                   FieldChecker& check);
RestorePlan ReadRestorePlan(const v1::RestorePlan& from, std::int64_t world_size,
                            FieldChecker& check);
RolePlace ReadRolePlace(const v1::RolePlace& from, std::int64_t world_size, FieldChecker& check);

void Fill(const JobSpec& from, v1::JobSpec* to);
void Fill(const NodeSpec& from, v1::NodeSpec* to);
void Fill(const WorkerExited& from, v1::WorkerExited* to);
void Fill(const RootCause& from, v1::RootCause* to);
void Fill(const Finished& from, v1::Finished* to);
void Fill(const std::vector<SavedState>& from,
          google::protobuf::RepeatedPtrField<v1::SavedState>* to);
void Fill(const RestorePlan& from, v1::RestorePlan* to);
void Fill(const RolePlace& from, v1::RolePlace* to);
void Fill(const NodeProgress& from, v1::NodeProgress* to);
void Fill(const StuckProcesses& from, v1::StuckProcesses* to);
void Fill(const EnteredCall& from, v1::EnteredCall* to);
void Fill(const FailedCheckpoints& from, v1::FailedCheckpoints* to);
void Fill(const EncodedStackTree& from, v1::StackTree* to);
void Fill(const HangStacks& from, v1::HangStacks* to);
void Fill(const LogOrder& from, v1::LogOrder* to);
void Fill(const LogPiece& from, v1::LogPiece* to);
void Fill(const StackFrame& from, v1::StackFrame* to);
// Sets the field only if there is something to report.
template <class Proto>
void FillIfAny(const FailedCheckpoints& from, Proto* to) {
  if (from.count > 0) Fill(from, to->mutable_failed_checkpoints());
}
template <class Proto>
void FillIfAny(const StuckProcesses& from, Proto* to) {
  if (from.report > 0) Fill(from, to->mutable_stuck());
}

// In ms, cut to the bounds that the receiver checks.
inline std::int64_t Bounded(Duration duration) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(duration);
  return std::clamp<std::int64_t>(ms.count(), 0, kMaxTimeout.count());
}

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_PARTS_H_
