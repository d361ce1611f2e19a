// Parsing of files of /proc, and the texts that describe their contents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include "absl/strings/str_cat.h"
#include "launcher/stacks/memory_map.h"
#include "launcher/stacks/process_facts.h"
#include "launcher/stacks/system_calls.h"

namespace ddprun::stacks {
namespace proc_parsing_test {

using testing::HasSubstr;

TEST(MemoryMapTest, ReadsWhatTheKernelWrites) {
  const std::vector<Mapping> maps = ParseMaps(
      "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a b (deleted)\n"
      "nonsense\n"
      "00451000-00453000 rw-p 00000000 00:00 0 \n"  // impossible: overlaps
      "7ffc0000-7ffd0000 rw-p 00000000 00:00 0                          [stack]\n"
      "7ffe0000-7ffe1000 ---p 00000000 00:00 0\n");
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_EQ(maps[0].path, "/usr/bin/a b (deleted)");
  EXPECT_TRUE(maps[0].executable && maps[0].readable && !maps[0].writable);
  EXPECT_EQ(maps[0].offset, 0x1000u);
  EXPECT_EQ(maps[0].device_major, 8u);
  EXPECT_EQ(maps[0].inode, 173521u);
  EXPECT_EQ(MappingAt(maps, 0x3fffff), nullptr);
  EXPECT_EQ(MappingAt(maps, 0x400000), &maps[0]);
  EXPECT_EQ(MappingAt(maps, 0x452000), nullptr);
  EXPECT_EQ(MappingAt(maps, 0x7ffcffff), &maps[1]);
}

TEST(SystemCallTest, ReadsWhatAThreadWaitsIn) {
  const auto read =
      ParseWaitingCall(absl::StrCat(SYS_read, " 0x5 0x7ffe 0x1 0x0 0x0 0x0 0x7 0x8\n"));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->name, "read");
  EXPECT_EQ(read->descriptor, 5);
  EXPECT_EQ(ParseWaitingCall(absl::StrCat(SYS_futex, " 0x5"))->descriptor, -1);
  EXPECT_EQ(ParseWaitingCall("9999 0x5")->name, "system call 9999");
  EXPECT_FALSE(ParseWaitingCall("running").has_value());
  EXPECT_FALSE(ParseWaitingCall("-1 0x7ffe 0x7fff").has_value());
  EXPECT_FALSE(ParseWaitingCall("").has_value());
}

// A user who may not trace gets the name of the missing permission, one row for each reason.
TEST(ExplainDeniedTest, NamesThePermissionThatIsMissing) {
  ProcessFacts process;
  process.uid = process.owner = 1000;
  TracePermission permission;
  permission.own_uid = 1000;
  EXPECT_THAT(ExplainDenied(process, permission), HasSubstr("no CAP_SYS_PTRACE"));
  permission.filtered = true;
  EXPECT_THAT(ExplainDenied(process, permission), HasSubstr("seccomp"));
  permission.yama = 1;
  EXPECT_THAT(ExplainDenied(process, permission), HasSubstr("ptrace_scope is 1 (only ancestors"));
  permission.yama = 2;
  EXPECT_THAT(ExplainDenied(process, permission), HasSubstr("ptrace_scope is 2"));
  permission.yama = 3;
  permission.has_sys_ptrace = true;
  EXPECT_THAT(ExplainDenied(process, permission), HasSubstr("ptrace_scope is 3 (nobody"));
  permission = {};
  permission.own_uid = 1000;
  process.owner = 0;
  EXPECT_THAT(ExplainDenied(process, permission), HasSubstr("not dumpable"));
  permission.own_uid = 65534;
  EXPECT_THAT(ExplainDenied(process, permission),
              HasSubstr("uid 1000, ddprun as uid 65534 without CAP_SYS_PTRACE"));
  permission.has_sys_ptrace = true;
  permission.other_user_namespace = true;
  EXPECT_THAT(ExplainDenied(process, permission), HasSubstr("another user namespace"));
}

TEST(DescribeWaitTest, SaysStateCallAndKernelFunction) {
  EXPECT_EQ(DescribeWait('D', "read(/data/7)", "folio_wait"),
            "D (disk wait), in read(/data/7), kernel function folio_wait");
  EXPECT_EQ(DescribeWait('R', "", ""), "R (running)");
}

}  // namespace proc_parsing_test
}  // namespace ddprun::stacks
