// Dropout by a counter-based generator: whether an element is kept depends on the seed, the step,
// the dropout's place in the model, and the element's global sample, position and feature, and on
// nothing else. So every plan, and every recomputation, draws the same mask.
#pragma once

#include <cstdint>

#include "exec/cpu/kernel.h"

namespace twinstep {

// Keep flags of one dropout of one layer in one step.
class DropoutCounter {
 public:
  DropoutCounter(const StepValues& step, DropoutSite site, std::int64_t layer);

  // Elements [first, first + count) of a row; `head` is the global head, 0 where there are none.
  // keep[i] becomes 1 or 0.
  void Draw(std::int64_t sample, std::int64_t position, std::int64_t head, std::int64_t first,
            std::int64_t count, std::uint8_t* keep) const;

  // What kept elements are multiplied with: 1 / (1 - probability); 0 if nothing is kept.
  double scale() const { return scale_; }

 private:
  std::uint64_t key_;
  std::uint64_t threshold_;  // Of 2^32: draws below it drop.
  double scale_;
};

void DropoutForward(const KernelCall& call);
void DropoutAdd(const KernelCall& call);
void DropoutBackward(const KernelCall& call);

}  // namespace twinstep
