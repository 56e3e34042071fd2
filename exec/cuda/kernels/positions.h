// Where a rank's tokens lie in the whole sequence and batch: exec/cpu/positions.h, row by row.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/host_device.h"
#include "exec/runtime/step_values.h"

namespace twinstep::cuda {

// Positions of context-parallel rank `index` of `count`, in its local order: the pieces `index` and
// `2 count - 1 - index` of 2 count, or the whole sequence.
struct Positions {
  std::int64_t piece;  // 0 if the whole sequence is local.
  std::int64_t index, count;

  TWINSTEP_HD std::int64_t Global(std::int64_t local) const {
    if (piece == 0) return local;
    const std::int64_t first = local < piece ? index : 2 * count - 2 - index;
    return first * piece + local;
  }
};

TWINSTEP_HD Positions MakePositions(std::int64_t sequence, std::int64_t index, std::int64_t count) {
  return {count == 1 ? 0 : sequence / (2 * count), index, count};
}

// The global position of a key in the gathered order (all ranks' positions, rank by rank).
TWINSTEP_HD std::int64_t GatheredPosition(const Positions& of, std::int64_t gathered) {
  if (of.piece == 0) return gathered;
  const std::int64_t rank = gathered / (2 * of.piece);
  return Positions{of.piece, rank, of.count}.Global(gathered - rank * 2 * of.piece);
}

// Where a piece of 2 `count` lies in the gathered order, counted in pieces.
TWINSTEP_HD std::int64_t GatheredPiece(std::int64_t piece, std::int64_t count) {
  return piece < count ? 2 * piece : 2 * (2 * count - 1 - piece) + 1;
}

// Sample and position of the rows of an activation: `rows` of a sequence-parallel tensor if the
// plan has such, else of a whole local sequence.
struct TokenRows {
  std::int64_t micro_batch_size, first_sample, first_row;
  Positions positions;

  TWINSTEP_HD std::int64_t Sample(std::int64_t row) const {
    return first_sample + (first_row + row) % micro_batch_size;
  }
  TWINSTEP_HD std::int64_t Position(std::int64_t row) const {
    return positions.Global((first_row + row) / micro_batch_size);
  }
};

inline TokenRows MakeTokenRows(const TaskPlace& place, std::int64_t rows) {
  return {place.micro_batch_size, place.first_sample, place.sequence_parallel ? place.tp * rows : 0,
          MakePositions(place.sequence_length, place.cp, place.context_parallel)};
}

}  // namespace twinstep::cuda
