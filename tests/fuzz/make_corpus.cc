// Writes the seeds of the targets whose inputs are binary: `make_corpus tests/fuzz/corpus`. Run it
// again when the messages or the journal's format change, and commit the files.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/store/journal_format.h"
#include "rendezvous/wire/record.h"
#include "rendezvous/wire/translate.h"
#include "tests/unit/launcher/torch_store/requests.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {
namespace {

void WriteSeed(const std::string& folder, const std::string& name, const std::string& bytes) {
  std::filesystem::create_directories(folder);
  std::ofstream(absl::StrCat(folder, "/", name), std::ios::binary) << bytes;
}

WorkerExited Exited() {
  WorkerExited exited;
  exited.rank = {3};
  exited.local_rank = {1};
  exited.pid = 4242;
  exited.status.signal = 9;
  exited.step = 17;
  exited.error_kind = "user";
  exited.error_text = "boom";
  exited.stderr_tail = {"a line", "\xFF"};
  exited.ended_at_ms = 1'700'000'000'000;
  exited.oom_killed = true;
  return exited;
}

void WriteWireSeeds(const std::string& folder) {
  Join join = JoinOf("n1", 2, 8);
  join.job.restart_window = std::chrono::hours(1);
  join.job.never_restart_on = {3, 42};
  join.job.master_addr = "n0";
  join.job.master_port = 29500;
  join.node.requested_rank = NodeRank{1};
  Assignment assignment;
  assignment.node_count = 2;
  assignment.world_size = 8;
  assignment.first_rank = {4};
  assignment.node_rank = {1};
  assignment.master_addr = "n0";
  assignment.master_port = 29500;
  RootCause cause;
  cause.failure = {"n1", {1}, {2}, Exited()};
  cause.victims = {cause.failure};
  cause.reason = "it was killed";
  cause.frames = {{"Load", "data.cc", 88, "trainer"}};
  const Finished finished{Outcome::kFailed, 137, "rank 3 died", 2, cause, {cause}};
  EncodedStackTree tree;
  tree.names = {"main", "main.cc", "trainer"};
  tree.frames = {{0, 1, 2, 7}};
  tree.nodes = {{0, 0, {{0, 3}, {5, 5}}}};
  tree.notes = {{5, RankTrouble::kStopped, "stopped"}};

  Stopped stopped{29501, 17};
  stopped.calls = {{LocalRank{1}, 2, {"group 0", 7, "all_reduce", 4096, 0}}};

  const std::vector<AgentMessage> from_agents = {
      join,
      Heartbeat{},
      AssignmentAck{},
      Exited(),
      Checkpointed{5},
      CannotSave{},
      Preempted{"n got SIGTERM"},
      HeldStates{},
      stopped,
      Leave{"SIGTERM", 143},
      StacksTaken{StackRequestId{9}, std::make_shared<EncodedStackTree>(tree)},
      LogPiece{LogReadingId{9}, "a line\n", true, "no more"}};
  const std::vector<RendezvousMessage> from_rendezvous = {
      Waiting{"for n2"},
      HeartbeatAck{7},
      assignment,
      Start{},
      Save{},
      Stop{"a failure"},
      finished,
      Fenced{"a lease"},
      Refused{"no"},
      LookAgain{LookId{9}},
      TakeStacks{StackRequestId{9}},
      LogOrder{LogReadingId{9},
               ReadLog{Generation{2}, LocalRank{1}, LogStream::kStderr, {5}, true, 4096}},
      LogOrder{LogReadingId{9}, MoreLog{100}},
      LogOrder{LogReadingId{9}, EndLog{}},
      HangReported{std::make_shared<HangStacks>(
          HangStacks{{"rank 5 hangs"}, {"n2"}, std::make_shared<EncodedStackTree>(tree)})}};
  const Header header = HeaderOf("job", 7, 2);
  for (const AgentMessage& message : from_agents) {
    WriteSeed(folder, absl::StrCat("agent_", message.index()),
              std::string(1, '\0') + wire::ToProto(header, message).SerializeAsString());
  }
  for (const RendezvousMessage& message : from_rendezvous) {
    WriteSeed(folder, absl::StrCat("rendezvous_", message.index()),
              "\1" + wire::ToProto(header, message).SerializeAsString());
  }
  JobRecord record;
  record.spec = join.job;
  record.generation = {2};
  record.master_addr = "n0";
  record.master_port = 29500;
  record.members = {{AgentId{7}, join.node, 29501, NodeRank{1}, Rank{8}}};
  record.governor.restarts_used = 1;
  record.governor.recent_ages = {std::chrono::seconds(5)};
  record.causes = {cause};
  record.checkpoint = 12;
  WriteSeed(folder, "record", "\3" + wire::EncodeRecord("uid 1000", record));
  record.finished = finished;
  WriteSeed(folder, "record_finished", "\3" + wire::EncodeRecord("", record));
  WriteSeed(folder, "gone", "\2" + wire::ToGoneReport(header).SerializeAsString());
}

void WriteJournalSeeds(const std::string& folder) {
  journal::FileHeader header;
  header.file_id = 0x0123456789ABCDEF;
  header.named_bytes = journal::kFileHeaderBytes;
  std::string file = journal::EncodeFileHeader(header);
  WriteSeed(folder, "empty", std::string(1, '\0') + file);
  journal::AppendBatch(header.file_id, 1, 48, {{"a", "1"}, {"b", "two"}}, &file);
  WriteSeed(folder, "one_batch", "\1" + file);
  std::size_t synced = file.size();
  journal::AppendBatch(header.file_id, 2, synced, {{"a", std::nullopt}}, &file);
  journal::AppendBatch(header.file_id, 3, synced, {{"c", ""}, {"", std::string(30, 'x')}}, &file);
  WriteSeed(folder, "group", "\1" + file);
  synced = file.size();
  journal::AppendMark(header.file_id, 3, synced, &file);
  WriteSeed(folder, "mark", std::string(1, '\0') + file);
  WriteSeed(folder, "torn", std::string(1, '\0') + file + std::string(100, '\0'));
  file[60] ^= 1;
  WriteSeed(folder, "damaged", std::string(1, '\0') + file);
}

void WriteTorchStoreSeeds(const std::string& folder) {
  using namespace torch_store;
  const std::string one_client = "\x3f";  // its turn lasts for 64 bytes
  WriteSeed(folder, "old_set_get", one_client + kOld.Set("k", "v") + kOld.Get("k"));
  WriteSeed(folder, "old_wait_watch", one_client + kOld.Wait({"k", "l"}) + Watch("k"));
  WriteSeed(folder, "old_compare_set", one_client + kOld.CompareSet("k", "", "v") + OldDelete("k"));
  WriteSeed(folder, "new_ping_add", one_client + Validation() + Ping(7) + kNew.Add("n", -1));
  WriteSeed(folder, "new_lists", one_client + Validation() + MultiSet("a", "1", "b", "2"));
  WriteSeed(folder, "new_multi_get", one_client + Validation() + Append("a", "") + MultiGet({"a"}));
  WriteSeed(folder, "new_cancel", one_client + Validation() + kNew.Wait({"a"}) + CancelWait());
  WriteSeed(folder, "http", one_client + "GET / HTTP/1.1\r\n\r\n");
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 64;
  }
  const std::string folder = argv[1];
  ddprun::WriteWireSeeds(folder + "/wire");
  ddprun::WriteJournalSeeds(folder + "/journal");
  ddprun::WriteTorchStoreSeeds(folder + "/torch_store");
  return 0;
}
