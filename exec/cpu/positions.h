// Where a rank's tokens lie in the whole sequence and batch.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "exec/cpu/kernel.h"

namespace twinstep {

// A run of consecutive positions.
struct PositionRun {
  std::int64_t local = 0;   // First, counted in the rank's own order (or the gathered order).
  std::int64_t global = 0;  // First, in the whole sequence.
  std::int64_t length = 0;
};

// The positions of context-parallel rank `index` of `count`, in its local order: the pieces
// `index` and `2 count - 1 - index` of 2 count equal pieces (causal balance), or the whole
// sequence in one run.
class LocalPositions {
 public:
  LocalPositions(std::int64_t sequence, std::int64_t index, std::int64_t count) {
    if (count == 1) {
      runs_[0] = {0, 0, sequence};
      return;
    }
    const std::int64_t piece = sequence / (2 * count);
    runs_[0] = {0, index * piece, piece};
    runs_[1] = {piece, (2 * count - 1 - index) * piece, piece};
    run_count_ = 2;
  }

  std::span<const PositionRun> runs() const { return {runs_.data(), run_count_}; }
  std::int64_t Global(std::int64_t local) const {
    const PositionRun& run = local < runs_[0].length ? runs_[0] : runs_[1];
    return run.global + local - run.local;
  }

 private:
  std::array<PositionRun, 2> runs_{};
  std::size_t run_count_ = 1;
};

// Calls function(PositionRun) for the runs of the gathered sequence (all ranks' positions, rank by
// rank) in the order of global positions.
template <typename Function>
void ForEachGatheredRun(std::int64_t sequence, std::int64_t count, Function&& function) {
  if (count == 1) {
    function(PositionRun{0, 0, sequence});
    return;
  }
  const std::int64_t piece = sequence / (2 * count);
  for (std::int64_t p = 0; p < 2 * count; ++p) {
    const std::int64_t local = p < count ? 2 * p : 2 * (2 * count - 1 - p) + 1;
    function(PositionRun{local * piece, p * piece, piece});
  }
}

// Sample and position of the rows of an activation.
class TokenRows {
 public:
  // `rows` of a sequence-parallel tensor if the plan has such, else of a whole local sequence.
  TokenRows(const TaskPlace& place, std::int64_t rows)
      : micro_batch_size_(place.micro_batch_size),
        first_sample_(place.first_sample),
        first_row_(place.sequence_parallel ? place.tp * rows : 0),
        positions_(place.sequence_length, place.cp, place.context_parallel) {}

  std::int64_t Sample(std::int64_t row) const {
    return first_sample_ + (first_row_ + row) % micro_batch_size_;
  }
  std::int64_t Position(std::int64_t row) const {
    return positions_.Global((first_row_ + row) / micro_batch_size_);
  }

 private:
  std::int64_t micro_batch_size_, first_sample_, first_row_;
  LocalPositions positions_;
};

}  // namespace twinstep
