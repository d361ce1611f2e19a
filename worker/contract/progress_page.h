// A page of shared memory in which a worker reports its progress without a system call. Its agent
// reads it at any time, even if the worker hangs or is dead.
//
// The agent makes the page: a sealed memfd of zeros. The agent keeps it open and sends it to the
// worker (control.h: PROGRESS). Only the worker writes to the page; exception: the kernel
// writes `keeper`. A record of several words has two copies: the writer fills the copy that is not
// current, and then switches the record's version to it. So a writer that stops for ever in between
// leaves the older copy complete. A worker can write anything, so ReadProgress() trusts nothing on
// the page.
//
// Standard library only, header only, C++17: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_PROGRESS_PAGE_H_
#define DDPRUN_WORKER_CONTRACT_PROGRESS_PAGE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "worker/contract/progress.h"

namespace ddprun {

inline constexpr std::uint64_t kProgressMagic = 0x3150676f72507264;  // "drProgP1", little-endian
inline constexpr std::uint64_t kProgressVersion = 2;
inline constexpr std::size_t kProgressFileBytes = 4096;  // size of the memfd

struct ProgressPage {
  using Word = std::atomic<std::uint64_t>;
  static constexpr std::size_t kNameWords = kProgressNameBytes / sizeof(std::uint64_t);

  template <std::size_t kWords>
  struct Record {
    Word version;  // its lowest bit selects the current copy
    Word copies[2][kWords];
  };
  struct Group {
    Record<5> entered;    // number, operation, bytes, at, bucket + 1 (0: no bucket)
    Record<5> completed;  // number, operation, bytes, at, number of completed ones
  };
  // One of the newest collectives that a group entered. `number` is 0 while the worker replaces the
  // entry. When the worker sets kCompleted, `number` stays.
  struct Recent {
    Word number;
    Word form;  // ProgressOperation, kCompleted, and bucket + 1 in the upper half
    Word bytes;
  };
  static constexpr std::uint64_t kCompleted = 1 << 16;
  // One of the program's own phases. The worker writes the name before it counts the phase. The
  // name does not change afterwards.
  struct OwnPhase {
    Word name[kNameWords];  // padded with zeros
    Word begun;             // how often it has begun; 0: this entry is unused
  };

  Word magic;  // kProgressMagic once a worker writes here; until then, ignore the rest
  Word version;
  Word size;  // kProgressFirstBytes
  Word generation;
  Word moves;
  Word steps;  // the last finished step + 1
  Word in_optimizer_step;
  Record<2 + kNameWords> phase;  // ProgressPhase, since, name padded with zeros
  Group groups[kProgressGroups];
  // A worker of an earlier ddprun leaves the members below zero.
  Word begun[kProgressPhaseNames.size()];  // how often each ProgressPhase has begun
  OwnPhase own[kProgressOwnPhases];
  Recent recent[kProgressGroups][kProgressRecent];  // entry: number modulo kProgressRecent
  // 1: the worker writes only collectives here. It reports steps and phases with messages, and may
  // run collectives that it does not report (launcher/python/_ddprun_state/collectives.py).
  Word only_collectives;
  // For the kernel's robust list of one thread of the worker (worker/src/agent/death_notice.h).
  // `keeper` is the id of this thread and FUTEX_WAITERS; 0: there is none. When the thread dies,
  // the kernel sets FUTEX_OWNER_DIED and wakes a process that waits for this futex.
  Word keeper_list;
  std::atomic<std::uint32_t> keeper;
  std::uint32_t unused;
};
// The size of the part that every ddprun with this kProgressVersion writes.
inline constexpr std::size_t kProgressFirstBytes = offsetof(ProgressPage, begun);
static_assert(ProgressPage::Word::is_always_lock_free && sizeof(ProgressPage::Word) == 8);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              sizeof(std::atomic<std::uint32_t>) == 4);
static_assert(std::is_standard_layout_v<ProgressPage>);
static_assert(sizeof(ProgressPage) <= kProgressFileBytes);

inline std::int64_t ProgressNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Writes the page of this process. Any thread may call it. The threads share a spinlock that is
// held for some nanoseconds; taking it makes no system call while it is free.
class ProgressWriter {
 public:
  // `page` must be zeroed and must outlive this object.
  explicit ProgressWriter(ProgressPage* page) : page_(page) {
    page->version.store(kProgressVersion, std::memory_order_relaxed);
    page->size.store(kProgressFirstBytes, std::memory_order_relaxed);
    page->magic.store(kProgressMagic, std::memory_order_release);
  }
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;

  // Copies the current page to `page`, but not `keeper`. Writes to that page from now on.
  void MoveTo(ProgressPage* page) {
    const Lock lock(this);
    const auto copy = [](const ProgressPage::Word& from, ProgressPage::Word& to) {
      to.store(from.load(std::memory_order_relaxed), std::memory_order_release);
    };
    const auto* const from = reinterpret_cast<const ProgressPage::Word*>(page_);
    auto* const to = reinterpret_cast<ProgressPage::Word*>(page);
    for (std::size_t i = 1; i < offsetof(ProgressPage, keeper_list) / sizeof(*from); ++i)
      copy(from[i], to[i]);
    copy(page_->magic, page->magic);
    page_ = page;
  }

  void Move() {
    const Lock lock(this);
    CountMove();
  }

  // Clears the groups, because the new generation has new groups.
  void BeginGeneration(std::int64_t generation) {
    const Lock lock(this);
    page_->generation.store(static_cast<std::uint64_t>(generation), std::memory_order_release);
    for (std::size_t i = 0; i < kProgressGroups; ++i) {
      counts_[i] = {};
      Publish(&page_->groups[i].entered, {});
      Publish(&page_->groups[i].completed, {});
      for (ProgressPage::Recent& recent : page_->recent[i]) {
        recent.number.store(0, std::memory_order_release);
      }
    }
    CountMove();
  }

  void SetStep(std::int64_t step) {
    const Lock lock(this);
    page_->steps.store(static_cast<std::uint64_t>(step) + 1, std::memory_order_release);
    CountMove();
  }

  void SetInOptimizerStep(bool inside) {
    const Lock lock(this);
    page_->in_optimizer_step.store(inside ? 1 : 0, std::memory_order_release);
    CountMove();
  }

  // `name` is the name of the phase if `phase` is kNamed.
  void SetPhase(ProgressPhase phase, std::string_view name) {
    std::array<std::uint64_t, 2 + ProgressPage::kNameWords> words{};
    words[0] = static_cast<std::uint64_t>(phase);
    words[1] = static_cast<std::uint64_t>(ProgressNow());
    std::memcpy(&words[2], name.data(), std::min(name.size(), kProgressNameBytes));
    const Lock lock(this);
    Publish(&page_->phase, words);
    Increment(&page_->begun[words[0]]);
    if (phase == ProgressPhase::kNamed) CountOwn(&words[2]);
    CountMove();
  }

  // Call it when a collective of `group` begins, in the order in which the group gets its
  // collectives. Returns the collective's number, for Complete().
  std::uint64_t Enter(std::size_t group, ProgressOperation operation, std::uint64_t bytes,
                      std::optional<std::uint32_t> bucket = std::nullopt) {
    const auto now = static_cast<std::uint64_t>(ProgressNow());
    const Lock lock(this);
    CountMove();
    if (group >= kProgressGroups) return 0;
    const std::uint64_t number = ++counts_[group].entered;
    const std::uint64_t of_bucket = bucket ? std::uint64_t{*bucket} + 1 : 0;
    const auto of_operation = static_cast<std::uint64_t>(operation);
    Publish(&page_->groups[group].entered, {number, of_operation, bytes, now, of_bucket});
    ProgressPage::Recent& recent = page_->recent[group][number % kProgressRecent];
    recent.number.store(0, std::memory_order_release);
    recent.form.store(of_operation | of_bucket << 32, std::memory_order_release);
    recent.bytes.store(bytes, std::memory_order_release);
    recent.number.store(number, std::memory_order_release);
    return number;
  }

  // Call it at most once per collective, in any order.
  void Complete(std::size_t group, std::uint64_t number, ProgressOperation operation,
                std::uint64_t bytes) {
    const auto now = static_cast<std::uint64_t>(ProgressNow());
    const Lock lock(this);
    CountMove();
    if (group >= kProgressGroups || number > counts_[group].entered) return;  // of an older group
    Publish(&page_->groups[group].completed,
            {number, static_cast<std::uint64_t>(operation), bytes, now, ++counts_[group].finished});
    ProgressPage::Recent& recent = page_->recent[group][number % kProgressRecent];
    if (recent.number.load(std::memory_order_relaxed) != number) return;  // replaced by a later one
    const std::uint64_t form = recent.form.load(std::memory_order_relaxed);
    recent.form.store(form | ProgressPage::kCompleted, std::memory_order_release);
  }

 private:
  struct Counts {
    std::uint64_t entered = 0;
    std::uint64_t finished = 0;
  };
  class Lock {
   public:
    explicit Lock(ProgressWriter* writer) : busy_(writer->busy_) {
      for (int tries = 1; busy_.test_and_set(std::memory_order_acquire); ++tries) {
        if (tries % 64 == 0) std::this_thread::yield();  // the holder of the lock may be preempted
      }
    }
    ~Lock() { busy_.clear(std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    std::atomic_flag& busy_;
  };

  static void Increment(ProgressPage::Word* count) {
    count->store(count->load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  void CountMove() { Increment(&page_->moves); }

  // `name` has kNameWords words.
  void CountOwn(const std::uint64_t* name) {
    for (ProgressPage::OwnPhase& own : page_->own) {
      const bool is_free = own.begun.load(std::memory_order_relaxed) == 0;
      bool same = true;
      for (std::size_t i = 0; i < ProgressPage::kNameWords; ++i) {
        if (is_free) own.name[i].store(name[i], std::memory_order_relaxed);
        same = same && own.name[i].load(std::memory_order_relaxed) == name[i];
      }
      if (same) return Increment(&own.begun);
    }
  }

  // Each store has release order: a reader that sees one of these words also sees the version that
  // was stored before it.
  template <std::size_t kWords>
  static void Publish(ProgressPage::Record<kWords>* record,
                      const std::array<std::uint64_t, kWords>& words) {
    const std::uint64_t next = record->version.load(std::memory_order_relaxed) + 1;
    for (std::size_t i = 0; i < kWords; ++i) {
      record->copies[next & 1][i].store(words[i], std::memory_order_release);
    }
    record->version.store(next, std::memory_order_release);
  }

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  // Guarded by busy_.
  ProgressPage* page_;
  std::array<Counts, kProgressGroups> counts_{};
};

namespace progress_page {

// nullopt: the worker writes the record faster than it can be read. Then the worker moves, and
// `moves` shows that.
template <std::size_t kWords>
std::optional<std::array<std::uint64_t, kWords>> Read(const ProgressPage::Record<kWords>& record) {
  constexpr int kTries = 16;
  std::array<std::uint64_t, kWords> words;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t version = record.version.load(std::memory_order_acquire);
    for (std::size_t j = 0; j < kWords; ++j) {
      words[j] = record.copies[version & 1][j].load(std::memory_order_acquire);
    }
    if (record.version.load(std::memory_order_acquire) == version) return words;
  }
  return std::nullopt;
}

inline std::int64_t Past(std::uint64_t at, std::int64_t now) {
  return static_cast<std::int64_t>(std::min(at, static_cast<std::uint64_t>(now)));
}

template <std::size_t kWords>
std::optional<ProgressCollective> Collective(const std::array<std::uint64_t, kWords>& words,
                                             std::int64_t now) {
  if (words[1] >= kProgressOperationNames.size()) return std::nullopt;
  return ProgressCollective{words[0], static_cast<ProgressOperation>(words[1]), words[2],
                            Past(words[3], now), std::nullopt};
}

inline std::optional<std::uint32_t> Bucket(std::uint64_t word) {
  if (word == 0 || word > std::uint64_t{0x7fffffff}) return std::nullopt;
  return static_cast<std::uint32_t>(word - 1);
}

// `recents` are the entries of one group. Entry i holds a number that is i modulo kProgressRecent.
// Skips entries that are being written.
inline void ReadRecent(const ProgressPage::Recent* recents, std::vector<ProgressRecent>* to) {
  for (std::size_t i = 0; i < kProgressRecent; ++i) {
    const ProgressPage::Recent& recent = recents[i];
    const std::uint64_t number = recent.number.load(std::memory_order_acquire);
    const std::uint64_t form = recent.form.load(std::memory_order_acquire);
    const std::uint64_t bytes = recent.bytes.load(std::memory_order_acquire);
    const std::uint64_t operation = form & (ProgressPage::kCompleted - 1);
    if (number == 0 || number % kProgressRecent != i ||
        recent.number.load(std::memory_order_acquire) != number ||
        operation >= kProgressOperationNames.size()) {
      continue;
    }
    to->push_back(
        {{number, static_cast<ProgressOperation>(operation), bytes, 0, Bucket(form >> 32)},
         (form & ProgressPage::kCompleted) != 0});
  }
  std::sort(to->begin(), to->end(), [](const ProgressRecent& a, const ProgressRecent& b) {
    return a.collective.number < b.collective.number;
  });
}

// `words` has kNameWords words.
inline std::string Name(const std::uint64_t* words) {
  char bytes[kProgressNameBytes];
  std::memcpy(bytes, words, sizeof(bytes));
  std::string name(bytes, std::find(bytes, bytes + sizeof(bytes), '\0'));
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return name;
}

inline void ReadBegun(const ProgressPage& page, ProgressSnapshot* snapshot) {
  for (std::size_t i = 0; i < kProgressPhaseNames.size(); ++i) {
    const auto phase = static_cast<ProgressPhase>(i);
    const std::uint64_t times = page.begun[i].load(std::memory_order_acquire);
    if (phase == ProgressPhase::kNamed || times == 0) continue;
    snapshot->begun.push_back({phase, kProgressPhaseNames[i], times});
  }
  for (const ProgressPage::OwnPhase& own : page.own) {
    const std::uint64_t times = own.begun.load(std::memory_order_acquire);
    if (times == 0) continue;
    std::uint64_t words[ProgressPage::kNameWords];
    for (std::size_t i = 0; i < ProgressPage::kNameWords; ++i) {
      words[i] = own.name[i].load(std::memory_order_relaxed);
    }
    snapshot->begun.push_back({ProgressPhase::kNamed, Name(words), times});
  }
}

inline void ReadPhase(const ProgressPage& page, std::int64_t now, ProgressSnapshot* snapshot) {
  snapshot->phase.reset();
  snapshot->phase_name.clear();
  const auto words = Read(page.phase);
  if (!words || (*words)[0] >= kProgressPhaseNames.size()) return;
  snapshot->phase = static_cast<ProgressPhase>((*words)[0]);
  snapshot->phase_since_ns = Past((*words)[1], now);
  snapshot->phase_name = kProgressPhaseNames[(*words)[0]];
  if (snapshot->phase == ProgressPhase::kNamed) snapshot->phase_name = Name(&(*words)[2]);
}

}  // namespace progress_page

// nullopt: no worker writes the page, or it has another kProgressVersion or kProgressFirstBytes.
// `page` may be null, have any size and contain anything. Nobody may shrink it during the call.
inline std::optional<ProgressSnapshot> ReadProgress(const void* page, std::size_t size) {
  if (page == nullptr || size < sizeof(ProgressPage)) return std::nullopt;
  if (reinterpret_cast<std::uintptr_t>(page) % alignof(ProgressPage) != 0) return std::nullopt;
  const auto& words = *static_cast<const ProgressPage*>(page);
  const auto load = [](const ProgressPage::Word& word) {
    return word.load(std::memory_order_acquire);
  };
  if (load(words.magic) != kProgressMagic || load(words.version) != kProgressVersion ||
      load(words.size) != kProgressFirstBytes) {
    return std::nullopt;
  }
  const std::int64_t now = ProgressNow();
  ProgressSnapshot snapshot;
  // Read first: if the worker moves after this line, the next reading has another number.
  snapshot.moves = load(words.moves);
  snapshot.generation = static_cast<std::int64_t>(load(words.generation));
  snapshot.step = std::max<std::int64_t>(static_cast<std::int64_t>(load(words.steps) - 1), -1);
  snapshot.in_optimizer_step = load(words.in_optimizer_step) == 1;
  snapshot.only_collectives = load(words.only_collectives) == 1;
  progress_page::ReadPhase(words, now, &snapshot);
  progress_page::ReadBegun(words, &snapshot);
  for (std::size_t i = 0; i < kProgressGroups; ++i) {
    ProgressGroup& group = snapshot.groups[i];
    // Read the completed count first: otherwise more collectives could seem completed than begun.
    if (const auto completed = progress_page::Read(words.groups[i].completed)) {
      group.completed = progress_page::Collective(*completed, now);
      group.finished = (*completed)[4];
    }
    if (const auto entered = progress_page::Read(words.groups[i].entered)) {
      group.entered = progress_page::Collective(*entered, now);
      if (group.entered) group.entered->bucket = progress_page::Bucket((*entered)[4]);
    }
    progress_page::ReadRecent(words.recent[i], &group.recent);
  }
  return snapshot;
}

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_PROGRESS_PAGE_H_
