// Layers that run on all GPUs of a machine at once, again and again: independent copies of them,
// each with a backend and a thread of its own. Under its power limit each GPU computes as fast as
// it can, and GPUs of one machine differ.
//
//   LayerCopies copies(layers, /*gpus=*/2, [&](int first_gpu) { return OptionsOn(first_gpu); });
//   Status started = copies.Start();
//   Status done = copies.OnEach([&](std::size_t copy, RepeatedRun* run) {
//     return run->Measure(seconds, &means[copy]);
//   });
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "exec/profile/phase_times.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/repeated_run.h"
#include "sim/result.h"

namespace twinstep {

class LayerCopies {
 public:
  // As many as so many GPUs have room for, a rank a GPU, one at least; `options` makes those of the
  // copy whose first rank is on `first_gpu`. Of their phase_times the first copy's tells of all.
  LayerCopies(const LoweredPlan& layers, int gpus,
              const std::function<RepeatedRunOptions(int first_gpu)>& options);

  // One after the other: what backends know of operators they share.
  Status Start();
  // Calls `work` for all copies at once, from a thread each. The first copy's error, if any; kNo
  // where the system starts no such threads.
  Status OnEach(const std::function<Status(std::size_t copy, RepeatedRun* run)>& work);

  std::size_t size() const { return runs_.size(); }
  std::size_t ranks() const { return ranks_; }  // Of a copy.
  RepeatedRun& first() { return *runs_.front(); }

 private:
  const std::size_t ranks_;
  PhaseTimes* phase_times_ = nullptr;
  std::vector<std::unique_ptr<RepeatedRun>> runs_;
};

}  // namespace twinstep
