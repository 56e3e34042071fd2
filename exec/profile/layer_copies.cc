#include "exec/profile/layer_copies.h"

#include <algorithm>
#include <system_error>
#include <thread>

#include "sim/str_cat.h"

namespace twinstep {

LayerCopies::LayerCopies(const LoweredPlan& layers, int gpus,
                         const std::function<RepeatedRunOptions(int first_gpu)>& options)
    : ranks_(layers.graph.ranks.size()) {
  const int ranks = static_cast<int>(ranks_);
  for (int first = 0; first == 0 || first + ranks <= gpus; first += ranks) {
    RepeatedRunOptions of_copy = options(first);
    if (first == 0) phase_times_ = of_copy.phase_times;
    if (first > 0) of_copy.phase_times = nullptr;
    runs_.push_back(std::make_unique<RepeatedRun>(layers, of_copy));
  }
}

Status LayerCopies::Start() {
  for (const std::unique_ptr<RepeatedRun>& run : runs_) {
    // The first does so itself.
    const PhaseTimes::Part part(run == runs_.front() ? nullptr : phase_times_,
                                &PhaseTime::starting_s);
    if (const Status done = run->Start(/*fill_buffers=*/false); !done.ok()) return done;
  }
  return Unit{};
}

Status LayerCopies::OnEach(const std::function<Status(std::size_t copy, RepeatedRun* run)>& work) {
  std::vector<Status> done(runs_.size(), Unit{});
  {
    std::vector<std::jthread> threads;
    try {
      for (std::size_t i = 1; i < runs_.size(); ++i) {
        threads.emplace_back([&, i] { done[i] = work(i, runs_[i].get()); });
      }
    } catch (const std::system_error& error) {
      // Fewer at once would measure GPUs that others leave the power to.
      return Error{.code = ExitCode::kNo,
                   .message = StrCat("a thread for each of ", runs_.size(),
                                     " copies of the layers: ", error.what())};
    }
    done[0] = work(0, runs_[0].get());
  }
  const auto failed = std::ranges::find_if(done, [](const Status& status) { return !status.ok(); });
  return failed == done.end() ? Status(Unit{}) : *failed;
}

}  // namespace twinstep
