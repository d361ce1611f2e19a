#include "worker/src/peers/peer_report.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "worker/src/base/in_words.h"

namespace ddp::internal {
namespace {

using State = PeerReport::State;

constexpr std::size_t kMostNamed = 8;  // per group of ranks with the same report

// For example "rank 1", "ranks 1, 2 and 5", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 92 more".
std::string Names(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t named = std::min(ranks.size(), kMostNamed);
  for (std::size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (named < ranks.size()) text += " and " + std::to_string(ranks.size() - named) + " more";
  return text;
}

std::string Sentence(std::string text) {
  text[0] = static_cast<char>(text[0] == 'r' ? 'R' : text[0]);
  return (text.ends_with('.') ? text : text + ".") + " ";
}

std::vector<int> RanksIn(const std::vector<PeerReport>& ranks, State state) {
  std::vector<int> result;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].state == state) result.push_back(static_cast<int>(i));
  }
  return result;
}

}  // namespace

std::string NameTheCause(const std::vector<PeerReport>& ranks, int asking_rank) {
  std::string text;
  std::size_t failed = 0;
  for (const int rank : RanksIn(ranks, State::kFailed)) {
    if (++failed > kMostNamed) break;
    text += Sentence("rank " + std::to_string(rank) +
                     " failed: " + ranks[static_cast<std::size_t>(rank)].text);
  }
  if (const auto ended = RanksIn(ranks, State::kEnded); !ended.empty()) {
    text += Sentence(Names(ended) + (ended.size() == 1 ? " has" : " have") +
                     " ended without a word, as after a signal");
  }
  if (const auto left = RanksIn(ranks, State::kLeft); !left.empty()) {
    text += Sentence(Names(left) + (left.size() == 1 ? " has" : " have") + " finished and left");
  }
  if (const auto silent = RanksIn(ranks, State::kSilent); !silent.empty()) {
    text += Sentence(Names(silent) + (silent.size() == 1 ? " does" : " do") +
                     " not answer: stopped, or cut off");
  }
  const PeerReport& asking = ranks[static_cast<std::size_t>(asking_rank)];
  std::vector<int> together;
  std::vector<int> elsewhere;
  for (const int rank : RanksIn(ranks, State::kAnswered)) {
    const bool same = ranks[static_cast<std::size_t>(rank)].text == asking.text;
    (same ? together : elsewhere).push_back(rank);
  }
  for (std::size_t i = 0; i < elsewhere.size() && i < kMostNamed; ++i) {
    const PeerReport& report = ranks[static_cast<std::size_t>(elsewhere[i])];
    text += Sentence("rank " + std::to_string(elsewhere[i]) + " " + report.text + " (for " +
                     Seconds(report.age) + ")");
  }
  if (elsewhere.size() > kMostNamed) {
    text += std::to_string(elsewhere.size() - kMostNamed) + " more are elsewhere. ";
  }
  if (!together.empty()) {
    text += Sentence(
        "rank " + std::to_string(asking_rank) + " " + asking.text + " (for " + Seconds(asking.age) +
        ")" +
        (together.size() == 1
             ? ""
             : ", and so " + std::string(together.size() == 2 ? "is 1 other" : "are ") +
                   (together.size() == 2 ? "" : std::to_string(together.size() - 1) + " others")));
  }
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace ddp::internal
