#include "worker/src/storage/folder_owner.h"

#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <system_error>

#include "tests/support/temp_dir.h"
#include "worker/src/storage/checkpoint_folder.h"
#include "worker/src/storage/process_identity.h"

namespace ddp::internal {
namespace folder_owner_test {

namespace fs = std::filesystem;
using ddprun::CheckpointOwner;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// ---- JudgeClaim ----

CheckpointOwner Self() {
  CheckpointOwner self{"17", 1, 4};
  self.run = "aaaa";
  self.slurm = "17";
  return self;
}

ClaimVerdict Judge(const OwnerSeen& seen, bool take_folder = false) {
  FolderOwnerOptions options;
  options.take_folder = take_folder;
  return JudgeClaim(Self(), seen, options);
}

OwnerSeen Seen(const CheckpointOwner& owner) { return {.owner = owner}; }

CheckpointOwner OfThisRun(std::int64_t requeue_number, std::int64_t generation) {
  CheckpointOwner owner = Self();
  owner.requeue_number = requeue_number;
  owner.generation = generation;
  return owner;
}

CheckpointOwner OfAnotherRun(std::int64_t requeue_number = 1) {
  CheckpointOwner owner = OfThisRun(requeue_number, 9);
  owner.run = "bbbb";
  return owner;
}

TEST(JudgeClaimTest, WhatNobodyHasIsFree) { EXPECT_EQ(Judge({}), ClaimVerdict::kTake); }

// Seen red when generations were not compared: a zombie took the folder back.
TEST(JudgeClaimTest, OfOneRunTheLaterGenerationHasItAtOnceAndTheEarlierOneNever) {
  for (const bool take_folder : {false, true}) {
    EXPECT_EQ(Judge(Seen(OfThisRun(1, 3)), take_folder), ClaimVerdict::kTake);
    EXPECT_EQ(Judge(Seen(OfThisRun(1, 4)), take_folder), ClaimVerdict::kTake);
    EXPECT_EQ(Judge(Seen(OfThisRun(0, 9)), take_folder), ClaimVerdict::kTake);
    OwnerSeen later = Seen(OfThisRun(1, 5));
    EXPECT_EQ(Judge(later, take_folder), ClaimVerdict::kRefuse);
    later.silent = seconds(3600);
    later.gone = true;
    later.owner->released = true;
    EXPECT_EQ(Judge(later, take_folder), ClaimVerdict::kRefuse);
  }
}

// Two unnamed jobs are both job "none", with requeue number 0.
TEST(JudgeClaimTest, AnotherRunWaitsUntilItsOwnerIsSilent) {
  OwnerSeen seen = Seen(OfAnotherRun());
  EXPECT_EQ(Judge(seen), ClaimVerdict::kWait);
  seen.silent = milliseconds(29'999);
  EXPECT_EQ(Judge(seen), ClaimVerdict::kWait);
  seen.silent = seconds(30);
  EXPECT_EQ(Judge(seen), ClaimVerdict::kTake);
}

TEST(JudgeClaimTest, AnotherRunDoesNotWaitForOneThatIsGoneHasReleasedItOrIsOverridden) {
  OwnerSeen gone = Seen(OfAnotherRun());
  gone.gone = true;
  EXPECT_EQ(Judge(gone), ClaimVerdict::kTake);
  OwnerSeen released = Seen(OfAnotherRun());
  released.owner->released = true;
  EXPECT_EQ(Judge(released), ClaimVerdict::kTake);
  EXPECT_EQ(Judge(Seen(OfAnotherRun()), /*take_folder=*/true), ClaimVerdict::kTake);
}

TEST(JudgeClaimTest, ARequeuedJobTakesItFromItsEarlierLifeAndThatOneNeverBack) {
  EXPECT_EQ(Judge(Seen(OfAnotherRun(0))), ClaimVerdict::kTake);
  OwnerSeen later = Seen(OfAnotherRun(2));
  later.owner->released = true;  // claimed by its agent
  EXPECT_EQ(Judge(later, /*take_folder=*/true), ClaimVerdict::kRefuse);
}

// Another Slurm job has the same --rdzv-id.
TEST(JudgeClaimTest, AnotherJobOfSlurmWithThisNameIsNoLifeOfThisJob) {
  for (const std::int64_t requeue_number : {0, 2}) {
    OwnerSeen seen = Seen(OfAnotherRun(requeue_number));
    seen.owner->slurm = "18";
    EXPECT_EQ(Judge(seen), ClaimVerdict::kWait);
    seen.owner->released = true;
    EXPECT_EQ(Judge(seen), ClaimVerdict::kTake);
  }
}

// An older version never updates the file, so its time is that of the first save.
TEST(JudgeClaimTest, AnOwnerOfAnOlderVersionIsAnotherRun) {
  OwnerSeen seen = Seen(CheckpointOwner{"17", 1, 4});
  EXPECT_EQ(Judge(seen), ClaimVerdict::kWait);
  seen.silent = seconds(30);
  EXPECT_EQ(Judge(seen), ClaimVerdict::kTake);
}

// Other users may write the file. Seen red with the text unchanged.
TEST(CheckpointOwnerTest, ADescriptionHasNoControlCharacters) {
  const auto owner = ddprun::ParseOwner(
      "0 2 j\x1b[2J\xc2\x9b"
      "1m\xc3\xa4\nrun=r\x07 host=n\x7f"
      "3 pid=7 state=held\n");
  ASSERT_TRUE(owner);
  EXPECT_EQ(Describe(*owner),
            "requeue number 0, generation 2, of job j?[2J?1m\xc3\xa4 (run r?, process 7 on n?3)");
}

TEST(CheckpointOwnerTest, AJobWithoutAnIdIsNotCalledNone) {
  EXPECT_EQ(Describe(CheckpointOwner{"none", 1, 2}), "requeue number 1, generation 2, of the job");
}

// ---- processes and their folder ----

class FolderOwnerTest : public ::testing::Test {
 protected:
  // Waits are short here.
  static FolderOwnerOptions Options(bool take_folder = false) {
    FolderOwnerOptions options;
    options.take_folder = take_folder;
    options.refresh = milliseconds(50);
    options.silence = milliseconds(1000);
    options.look = milliseconds(10);
    options.lock = milliseconds(100);
    return options;
  }
  static CheckpointOwner Identity(const std::string& run, int generation) {
    CheckpointOwner self{"none", 0, generation};
    self.run = run;
    self.host = "n1";
    self.pid = getpid();
    self.started = StartTimeOf(getpid());
    self.machine = Machine();
    return self;
  }
  FolderOwner Process(const std::string& run, int generation, bool take_folder = false) const {
    return {folder_.path(), Identity(run, generation), Options(take_folder)};
  }
  // Returns "saved", or the error.
  static std::string Save(FolderOwner& process) {
    bool called = false;
    try {
      process.Guard([&] { called = true; });
    } catch (const CheckpointError& e) {
      return called ? "called, and " + std::string(e.what()) : e.what();
    }
    return called ? "saved" : "not called";
  }
  // Returns "claimed", or the refusal; throws other errors.
  static std::string Claim(FolderOwner& process) {
    try {
      process.Claim();
      return "claimed";
    } catch (const FolderTaken& e) {
      return e.what();
    }
  }
  std::string Owner() const {
    const auto owner = ddprun::ReadOwner(folder_.path());
    return owner ? owner->run + " " + std::to_string(owner->generation) +
                       (owner->released ? " released" : "")
                 : "nobody";
  }
  // As if the owner had been silent for this time.
  void Age(seconds by) const {
    const fs::path file = folder_ / ddprun::kOwnerFile;
    fs::last_write_time(file, fs::last_write_time(file) - by);
  }
  // Leaves an owner in the folder that never updates it.
  void SetOwner(const CheckpointOwner& owner) const {
    ddprun::OwnerFile(folder_.path(), ddprun::OwnerFile::For::kClaiming).Write(owner);
  }

  ddprun::TempDir folder_;
};

// Seen red when the owner was not compared after a claim: the zombie saved.
TEST_F(FolderOwnerTest, AZombieOfAnEarlierGenerationCannotTakeTheFolderBack) {
  FolderOwner zombie = Process("a", 3);
  FolderOwner successor = Process("a", 4);
  EXPECT_EQ(Claim(zombie), "claimed");
  EXPECT_EQ(Save(zombie), "saved");
  EXPECT_EQ(Claim(successor), "claimed");
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Save(zombie), AllOf(HasSubstr("generation 4, of the job (run a, process " +
                                              std::to_string(getpid()) +
                                              " on n1), and this is "
                                              "what is left of requeue number 0, generation 3")));
  }
  EXPECT_EQ(Owner(), "a 4");
  EXPECT_EQ(Save(successor), "saved");
  // The same for an earlier process that first saves after the successor has ended.
  successor.Release();
  EXPECT_EQ(Owner(), "a 4 released");
  FolderOwner late = Process("a", 2);
  EXPECT_THAT(Save(late), HasSubstr("generation 4"));
}

// Two trainings started in one folder. Seen red without the refresh: the second one took the folder
// after the silence.
TEST_F(FolderOwnerTest, AnotherRunIsRefusedWithHostAndPidWhileTheOwnerIsHeard) {
  FolderOwner first = Process("a", 0);
  FolderOwner second = Process("b", 0);
  EXPECT_EQ(Claim(first), "claimed");
  EXPECT_THAT(Claim(second),
              AllOf(StartsWith("the checkpoint folder " + folder_.path() + " belongs to "),
                    HasSubstr("process " + std::to_string(getpid()) + " on n1"),
                    HasSubstr("--take-folder")));
  EXPECT_EQ(Owner(), "a 0");
  EXPECT_THAT(Save(second), HasSubstr("belongs to")) << "nor does it write";
  EXPECT_EQ(Save(first), "saved");
}

TEST_F(FolderOwnerTest, AnotherRunHasTheFolderOnceTheOwnerWasSilent) {
  CheckpointOwner elsewhere = Identity("a", 0);
  elsewhere.machine = "another/1";
  elsewhere.pid = 0x3fffffff;  // no such process here, which proves nothing
  SetOwner(elsewhere);
  FolderOwner second = Process("b", 0);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Claim(second), "claimed");
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(700));
  EXPECT_EQ(Owner(), "b 0");
  // An owner that was silent before is not waited for.
  SetOwner(elsewhere);
  Age(seconds(2));
  FolderOwnerOptions patient = Options();
  patient.look = std::chrono::hours(1);
  FolderOwner at_once(folder_.path(), Identity("c", 0), patient);
  EXPECT_EQ(Claim(at_once), "claimed");
}

TEST_F(FolderOwnerTest, TheOwnerWhoWasSilentHasLostTheFolder) {
  FolderOwnerOptions silent = Options();
  silent.refresh = std::chrono::hours(1);
  CheckpointOwner stopped = Identity("a", 0);
  stopped.machine = "another/1";
  FolderOwner first(folder_.path(), stopped, silent);
  EXPECT_EQ(Claim(first), "claimed");
  Age(seconds(2));
  FolderOwner second = Process("b", 0);
  EXPECT_EQ(Claim(second), "claimed");
  EXPECT_THAT(Save(first), HasSubstr("(run b, process"));
  EXPECT_EQ(Owner(), "b 0");
}

TEST_F(FolderOwnerTest, TakeFolderTakesItFromOneThatLives) {
  FolderOwner first = Process("a", 0);
  EXPECT_EQ(Claim(first), "claimed");
  FolderOwner second = Process("b", 0, /*take_folder=*/true);
  EXPECT_EQ(Claim(second), "claimed");
  EXPECT_THAT(Save(first), HasSubstr("(run b"));
}

TEST_F(FolderOwnerTest, AnOrderlyEndReleasesTheFolder) {
  {
    FolderOwner first = Process("a", 0);
    EXPECT_EQ(Claim(first), "claimed");
    first.Release();
    EXPECT_EQ(Owner(), "a 0 released");
  }
  FolderOwnerOptions patient = Options();
  patient.look = std::chrono::hours(1);
  FolderOwner second(folder_.path(), Identity("b", 0), patient);
  EXPECT_EQ(Claim(second), "claimed");
}

TEST_F(FolderOwnerTest, WhatAnotherRunHasIsNotReleased) {
  FolderOwner first = Process("a", 0);
  EXPECT_EQ(Claim(first), "claimed");
  FolderOwner second = Process("b", 0, /*take_folder=*/true);
  EXPECT_EQ(Claim(second), "claimed");
  first.Release();
  EXPECT_EQ(Owner(), "b 0");
}

// Seen red when the owner's process was not checked: the claim waited for an hour.
TEST_F(FolderOwnerTest, AnOwnerOfThisMachineThatWasKilledIsReplacedAtOnce) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    SetOwner(Identity("a", 0));
    [[maybe_unused]] const ssize_t written = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  FolderOwnerOptions patient = Options();
  patient.silence = std::chrono::hours(1);
  FolderOwner second(folder_.path(), Identity("b", 0), patient);
  const auto owner = ddprun::ReadOwner(folder_.path());
  EXPECT_FALSE(IsGone(child, owner->started));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  // Also before the parent has waited for the killed process.
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(Claim(second), "claimed");
  EXPECT_EQ(Owner(), "b 0");
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(IsGone(child, owner->started));
  EXPECT_TRUE(IsGone(getpid(), "1")) << "its pid is another process's";
}

TEST_F(FolderOwnerTest, AClaimMakesTheFolder) {
  FolderOwner owner(folder_ / "a/b", Identity("a", 0), Options());
  EXPECT_EQ(Claim(owner), "claimed");
  EXPECT_EQ(ddprun::ReadOwner(folder_ / "a/b")->run, "a");
  FolderOwner second(folder_ / "a/b", Identity("b", 0), Options());
  EXPECT_THAT(Claim(second), HasSubstr("(run a"));
}

TEST_F(FolderOwnerTest, AFolderThatIsMadeAnewIsStillOurs) {
  FolderOwner owner(folder_ / "a", Identity("a", 0), Options());
  EXPECT_EQ(Save(owner), "saved");
  fs::remove_all(folder_ / "a");
  fs::create_directory(folder_ / "a");
  EXPECT_EQ(Save(owner), "saved");
  EXPECT_EQ(ddprun::ReadOwner(folder_ / "a")->run, "a");
}

TEST_F(FolderOwnerTest, NobodyIsAskedWithoutALauncher) {
  FolderOwner owner = Process("a", 3);
  EXPECT_EQ(Save(owner), "saved");
  FolderOwner alone(folder_.path(), OwnerOfProcess([](const char*) { return nullptr; }));
  EXPECT_EQ(Save(alone), "saved");
  EXPECT_EQ(Owner(), "a 3");
}

TEST_F(FolderOwnerTest, AProcessKnowsWhoItIs) {
  const std::map<std::string, std::string> variables = {{"TORCHELASTIC_RUN_ID", "17"},
                                                        {"DDPRUN_EPOCH", "2"},
                                                        {"DDPRUN_GENERATION", "5"},
                                                        {"DDPRUN_JOB_RUN_ID", "00c0ffee00c0ffee"},
                                                        {"SLURM_JOB_ID", "17"}};
  const auto self = OwnerOfProcess([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  ASSERT_TRUE(self);
  SetOwner(*self);
  const auto read = ddprun::ReadOwner(folder_.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(ToText(*read), ToText(*self));
  EXPECT_EQ(read->run, "00c0ffee00c0ffee");
  EXPECT_EQ(read->host, HostName());
  EXPECT_EQ(read->pid, getpid());
  EXPECT_EQ(read->started, StartTimeOf(getpid()));
  EXPECT_NE(read->started, "");
  EXPECT_NE(read->machine, "");
  EXPECT_EQ(read->slurm, "17");
}

TEST_F(FolderOwnerTest, ALineThatACrashHasCutIsNobodys) {
  for (const char* const text : {"", "2", "2 1", "2 1 17", "two 1 17\n", "-2 1 17\n"}) {
    std::ofstream(folder_ / "owner") << text;
    FolderOwner process = Process("a", 0);
    EXPECT_EQ(Save(process), "saved") << text;
    EXPECT_EQ(Owner(), "a 0") << text;
  }
}

TEST_F(FolderOwnerTest, NamesAreOfAnyLengthAndHaveSpaces) {
  CheckpointOwner owner = Identity("a", 12);
  owner.job = "a job with " + std::string(300, 'x');
  SetOwner(owner);
  EXPECT_EQ(ToText(*ddprun::ReadOwner(folder_.path())), ToText(owner));
  owner.job = "b";
  SetOwner(owner);
  EXPECT_EQ(ToText(*ddprun::ReadOwner(folder_.path())), ToText(owner));
}

TEST_F(FolderOwnerTest, TheLockIsHeldWhileTheFilesChange) {
  FolderOwner process = Process("a", 0);
  bool locked = false;
  process.Guard([&] {
    ddprun::OwnerFile other(folder_.path(), ddprun::OwnerFile::For::kReading);
    try {
      other.Lock(milliseconds(0));
    } catch (const std::system_error& e) {
      locked = e.code() == std::errc::operation_would_block;
    }
  });
  EXPECT_TRUE(locked);
}

TEST_F(FolderOwnerTest, WhoHoldsTheLockForTooLongIsNamed) {
  FolderOwner process = Process("a", 0);
  EXPECT_EQ(Save(process), "saved");
  ddprun::OwnerFile other(folder_.path(), ddprun::OwnerFile::For::kReading);
  other.Lock(milliseconds(0));
  EXPECT_THAT(
      Save(process),
      AllOf(StartsWith("the lock of the checkpoint folder " + folder_.path() + " was not "),
            HasSubstr("process " + std::to_string(getpid()) + " (worker_base"),
            HasSubstr("the folder belongs to requeue number 0, generation 0, of the job (run a")));
}

// Seen red without the guard around the rename.
TEST_F(FolderOwnerTest, ARefusedCheckpointLeavesNothing) {
  const auto image = [](const char* text) {
    return CheckpointImage{7, {{{"model.x", "U8", {3}}, text, 3}}, {{"ddprun_run", "a"}}};
  };
  FolderOwner earlier = Process("a", 0);
  FolderOwner later = Process("a", 1);
  SaveCheckpoint(folder_.path(), image("old"), &earlier);
  const std::string path = SaveCheckpoint(folder_.path(), image("new"), &later);
  EXPECT_THROW(SaveCheckpoint(folder_.path(), image("bad"), &earlier), CheckpointError);
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(content.substr(content.size() - 3), "new");
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_.path())) ++files;
  EXPECT_EQ(files, 2);  // the checkpoint and the owner
}

}  // namespace folder_owner_test
}  // namespace ddp::internal
