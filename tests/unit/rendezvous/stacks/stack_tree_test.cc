#include "rendezvous/stacks/stack_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace stack_tree_test {

using testing::HasSubstr;

using Path = std::vector<StackFrame>;

struct Thread {
  std::uint32_t rank;
  ThreadKind kind;
  Path frames;
};

Thread RandomThread(std::mt19937* random) {
  const auto below = [&](unsigned n) { return static_cast<std::uint32_t>((*random)() % n); };
  Thread thread{below(40), below(3) == 0 ? ThreadKind::kOther : ThreadKind::kMain, {}};
  const std::size_t depth = 1 + below(6);
  for (std::size_t i = 0; i < depth; ++i) {
    thread.frames.push_back({absl::StrCat("f", below(3)), below(2) == 0 ? "" : "a.cc", below(2),
                             below(4) == 0 ? "lib.so" : "main"});
  }
  return thread;
}

StackTree TreeOf(const std::vector<Thread>& threads) {
  StackTree tree;
  for (const Thread& thread : threads) {
    tree.Add(thread.rank, thread.kind, thread.frames);
    tree.Add(RankNote{thread.rank, RankTrouble::kInCall, thread.frames.front().function});
  }
  return tree;
}

// A simple model of a tree: for each beginning of a stack, the ranks that have it.
using Twin = std::map<std::pair<ThreadKind, Path>, std::set<std::uint32_t>>;

Twin TwinOf(const std::vector<Thread>& threads) {
  Twin twin;
  for (const Thread& thread : threads) {
    for (std::size_t size = 1; size <= thread.frames.size(); ++size) {
      const Path path(thread.frames.begin(), thread.frames.begin() + static_cast<long>(size));
      twin[{thread.kind, path}].insert(thread.rank);
    }
  }
  return twin;
}

void AddBelow(const StackTree& tree, std::uint32_t node, ThreadKind kind, Path path, Twin* twin) {
  for (const std::uint32_t child : tree.node(node).children) {
    Path longer = path;
    longer.push_back(tree.frame(tree.node(child).frame));
    std::set<std::uint32_t>& ranks = (*twin)[{kind, longer}];
    for (const RankRange& range : tree.node(child).ranks.ranges()) {
      for (std::uint32_t rank = range.first; rank <= range.last; ++rank) ranks.insert(rank);
    }
    AddBelow(tree, child, kind, longer, twin);
  }
}

Twin TwinOf(const StackTree& tree) {
  Twin twin;
  for (const ThreadKind kind : {ThreadKind::kMain, ThreadKind::kOther}) {
    AddBelow(tree, StackTree::Root(kind), kind, {}, &twin);
  }
  return twin;
}

TEST(StackTreeTest, HasWhatADumbTwinHasHoweverItIsMerged) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<Thread> threads;
    for (int i = 0; i < 40; ++i) threads.push_back(RandomThread(&random));
    const auto third = static_cast<long>(threads.size() / 3);
    const StackTree a = TreeOf({threads.begin(), threads.begin() + third});
    const StackTree b = TreeOf({threads.begin() + third, threads.begin() + 2 * third});
    const StackTree c = TreeOf({threads.begin() + 2 * third, threads.end()});
    StackTree ab = a;
    ab.Merge(b);
    ab.Merge(c);
    StackTree cba = c;
    StackTree ba = b;
    ba.Merge(a);
    cba.Merge(ba);
    std::shuffle(threads.begin(), threads.end(), random);
    const StackTree at_once = TreeOf(threads);
    ASSERT_EQ(TwinOf(at_once), TwinOf(threads)) << "seed " << seed;
    ASSERT_EQ(ab.Encode(), at_once.Encode()) << "seed " << seed;
    ASSERT_EQ(cba.Encode(), at_once.Encode()) << "seed " << seed;
    StackTree twice = ab;
    twice.Merge(ab);
    ASSERT_EQ(twice.Encode(), ab.Encode()) << "seed " << seed;
    const auto decoded = StackTree::Decode(ab.Encode());
    ASSERT_TRUE(decoded.ok()) << decoded.status() << ", seed " << seed;
    ASSERT_EQ(decoded->Encode(), ab.Encode()) << "seed " << seed;
    ASSERT_EQ(decoded->Ranks(), ab.Ranks()) << "seed " << seed;
    ASSERT_EQ(RanksOf(ab.Encode()), ab.Ranks()) << "seed " << seed;
    ASSERT_EQ(ab.wire_bytes(), WireBytes(ab.Encode())) << "seed " << seed;
    StackTree of_encoded = c;
    of_encoded.Merge(a.Encode());
    of_encoded.Merge(b.Encode());
    ASSERT_EQ(of_encoded.Encode(), at_once.Encode()) << "seed " << seed;
  }
}

TEST(StackTreeTest, OfADeepStackTheMiddleIsLeftOut) {
  Path frames;
  for (int i = 0; i < 100; ++i) frames.push_back({absl::StrCat("f", i), "", 0, ""});
  const Path kept = WithoutMiddle(frames);
  ASSERT_EQ(kept.size(), kMaxStackFrames);
  EXPECT_EQ(kept.front().function, "f0");
  EXPECT_EQ(kept.back().function, "f99");
  EXPECT_EQ(std::count_if(kept.begin(), kept.end(),
                          [](const StackFrame& frame) { return frame.function == "..."; }),
            1);
  frames.resize(kMaxStackFrames);
  EXPECT_EQ(WithoutMiddle(frames), frames);
}

TEST(StackTreeTest, WhatDoesNotFitIsLeftOutFromTheInside) {
  StackTree tree;
  for (std::uint32_t rank = 0; rank < 2000; ++rank) {
    tree.Add(rank, ThreadKind::kMain,
             {{"main", "", 0, ""},
              {rank < 1990 ? "Step" : "Other", "", 0, ""},
              {absl::StrCat(std::string(400, 'x'), rank), "", 0, ""}});
  }
  const EncodedStackTree small = tree.Encode(20'000);
  EXPECT_LE(WireBytes(small), 20'000u);
  EXPECT_EQ(small.left_out, 2003 - small.nodes.size());
  const auto decoded = StackTree::Decode(small);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->left_out(), small.left_out);
  std::set<std::string> functions;
  for (const auto& [path, ranks] : TwinOf(*decoded)) functions.insert(path.second.back().function);
  EXPECT_THAT(functions, testing::IsSupersetOf({"main", "Step", "Other"}));
  EXPECT_LE(WireBytes(tree.Encode()), kMaxStackTreeBytes);
}

// A thread of one rank on each node needs as many ranges as there are nodes, and may not fit. Seen
// red when everything after it was left out too.
TEST(StackTreeTest, MainThreadsAreLeftOutLastAndOneLargeNodeLeavesRoomForOthers) {
  StackTree tree;
  for (std::uint32_t rank = 0; rank < 20'000; ++rank) {
    tree.Add(rank, ThreadKind::kMain, {{"main", "", 0, ""}, {"Step", "", 0, ""}});
    tree.Add(rank, ThreadKind::kOther, {{"Poll", "", 0, ""}});
    if (rank % 8 == 0) tree.Add(rank, ThreadKind::kOther, {{"Log", "", 0, ""}});
  }
  const auto decoded = StackTree::Decode(tree.Encode(10'000));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  std::set<std::string> functions;
  for (const auto& [path, ranks] : TwinOf(*decoded)) functions.insert(path.second.back().function);
  EXPECT_THAT(functions, testing::ElementsAre("Poll", "Step", "main"));
  EXPECT_EQ(decoded->left_out(), 1u);
  EXPECT_THAT(TwinOf(*StackTree::Decode(tree.Encode(100))), testing::SizeIs(2)) << "main, Step";
}

TEST(StackTreeTest, NamesAndNotesAreBounded) {
  StackTree tree;
  // A letter of two bytes lies across the limit: it is cut off as a whole.
  const std::string name = std::string(kMaxStackNameBytes - 4, 'a') + "ééé";
  tree.Add(1, ThreadKind::kMain, {{name, "", 0, ""}});
  const EncodedStackTree encoded = tree.Encode();
  const std::string& longest = *std::max_element(
      encoded.names.begin(), encoded.names.end(),
      [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  EXPECT_EQ(longest, std::string(kMaxStackNameBytes - 4, 'a') + "...");
  for (std::uint32_t rank = 0; rank < kMaxStackNotes + 10; ++rank) {
    tree.Add(RankNote{rank, RankTrouble::kGone, "it has ended"});
  }
  EXPECT_EQ(tree.notes().size(), kMaxStackNotes);
  EXPECT_EQ(tree.notes().begin()->rank, 0u);
}

TEST(StackTreeTest, NotesLeaveRoomForFrames) {
  StackTree tree;
  tree.Add(1, ThreadKind::kMain, {{"main", "", 0, "a"}});
  for (std::uint32_t rank = 0; rank < kMaxStackNotes; ++rank) {
    tree.Add(RankNote{rank, RankTrouble::kGone, std::string(kMaxStackNameBytes, 'x')});
  }
  const EncodedStackTree encoded = tree.Encode();
  EXPECT_TRUE(StackTree::Decode(encoded).ok());
  EXPECT_EQ(encoded.nodes.size(), 1u);
  EXPECT_EQ(encoded.notes.front().rank, 0u);
}

TEST(StackTreeTest, RefusesWhatItNeverEncodes) {
  StackTree tree;
  tree.Add(1, ThreadKind::kMain, {{"main", "a.cc", 1, "a"}, {"f", "a.cc", 2, "a"}});
  tree.Add(2, ThreadKind::kMain, {{"main", "a.cc", 1, "a"}});
  tree.Add(RankNote{1, RankTrouble::kStopped, "stopped"});
  const EncodedStackTree good = tree.Encode();
  ASSERT_TRUE(StackTree::Decode(good).ok());
  const auto refused = [&](const auto& change) {
    EncodedStackTree bad = good;
    change(&bad);
    return std::string(StackTree::Decode(bad).status().message());
  };
  EXPECT_THAT(refused([](auto* t) { t->nodes[1].parent = 3; }), HasSubstr("before its parent"));
  EXPECT_THAT(refused([](auto* t) { t->nodes[1].frame = 2; }), HasSubstr("frame is missing"));
  EXPECT_THAT(refused([](auto* t) { t->nodes[1].ranks = {{3, 3}}; }), HasSubstr("caller"));
  EXPECT_THAT(refused([](auto* t) { t->nodes[0].ranks.clear(); }), HasSubstr("no set"));
  EXPECT_THAT(refused([](auto* t) { t->nodes[0].ranks = {{2, 1}}; }), HasSubstr("no set"));
  EXPECT_THAT(refused([](auto* t) { t->nodes.push_back(t->nodes[1]); }), HasSubstr("twice"));
  EXPECT_THAT(refused([](auto* t) { t->frames.push_back(t->frames[0]); }),
              HasSubstr("frame twice"));
  EXPECT_THAT(refused([](auto* t) { t->names.push_back(t->names[0]); }), HasSubstr("name twice"));
  EXPECT_THAT(refused([](auto* t) { t->frames[0].file = 99; }), HasSubstr("name is missing"));
  EXPECT_THAT(refused([](auto* t) { t->names[0] = std::string(513, 'x'); }), HasSubstr("too long"));
  EXPECT_THAT(refused([](auto* t) { t->notes[0].text = std::string(513, 'x'); }),
              HasSubstr("too long"));
  EXPECT_THAT(refused([](auto* t) { t->notes[0].trouble = static_cast<RankTrouble>(8); }),
              HasSubstr("unknown"));
  EXPECT_THAT(refused([](auto* t) { t->notes.resize(kMaxStackNotes + 1); }),
              HasSubstr("too many notes"));
  EXPECT_THAT(refused([](auto* t) { t->frames.resize(70'000); }), HasSubstr("1 MiB"));
  EXPECT_THAT(refused([](auto* t) {
                for (std::uint32_t i = 1; i < kMaxStackFrames; ++i) {
                  t->nodes.push_back({i + 2, 0, {{1, 1}}});
                }
              }),
              HasSubstr("too many frames"));
}

}  // namespace stack_tree_test
}  // namespace ddprun
