// Whose turn it is on the multiprocessors of each GPU. One kernel fills them, so that one that
// comes while another runs waits until that is done. They are served in the order in which they
// came; of those that come at one moment computations first, since what communicates is launched
// behind an event, then the lowest task.
//
//   KernelTurns turns(ranks);
//   turns.Ask(rank, task, /*computes=*/true);            // Whenever a kernel comes,
//   turns.Release(rank);                                 // and when the one that runs is done.
//   for (const TaskId task : turns.Grant()) Begin(task); // Once all of a moment has happened.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "sim/graph/ids.h"

namespace twinstep {

class KernelTurns {
 public:
  explicit KernelTurns(std::size_t ranks) : ranks_(ranks) {}

  void Ask(RankId rank, TaskId task, bool computes) {
    ranks_[rank].asked.emplace_back(!computes, task);
    Touch(rank);
  }

  void Release(RankId rank) {
    ranks_[rank].taken = false;
    Touch(rank);
  }

  // Whether a kernel waits that came at an earlier moment.
  bool IsAwaited(RankId rank) const { return !ranks_[rank].waiting.empty(); }

  // Tasks whose turn begins now.
  std::vector<TaskId> Grant() {
    std::vector<TaskId> granted;
    for (const RankId id : std::exchange(touched_, {})) {
      Rank& rank = ranks_[id];
      rank.touched = false;
      std::ranges::sort(rank.asked);
      for (const auto& [is_later, task] : rank.asked) rank.waiting.push_back(task);
      rank.asked.clear();
      if (rank.taken || rank.waiting.empty()) continue;
      rank.taken = true;
      granted.push_back(rank.waiting.front());
      rank.waiting.pop_front();
    }
    return granted;
  }

 private:
  struct Rank {
    bool taken = false, touched = false;
    std::vector<std::pair<bool, TaskId>> asked;  // At this moment: computes not, task.
    std::deque<TaskId> waiting;
  };

  void Touch(RankId rank) {
    if (std::exchange(ranks_[rank].touched, true)) return;
    touched_.push_back(rank);
  }

  std::vector<Rank> ranks_;
  std::vector<RankId> touched_;
};

}  // namespace twinstep
