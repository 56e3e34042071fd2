#include "exec/profile/repeated_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "exec/profile/statistics.h"
#include "exec/profile/task_seconds.h"
#include "exec/runtime/quick_weights.h"

namespace twinstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFewestIterations = 3;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

double MedianOf(const Means& means, const Primitive& primitive) {
  const auto at = means.find(primitive);
  return at == means.end() ? 0 : Summarize(at->second).median;
}

RepeatedRun::RepeatedRun(LoweredPlan lowered, const RepeatedRunOptions& options)
    : lowered_(std::move(lowered)), options_(options) {}

Status RepeatedRun::Start(bool fill_buffers) {
  const PhaseTimes::Part part(options_.phase_times, &PhaseTime::starting_s);
  Result<std::unique_ptr<Backend>> backend = options_.make_backend();
  if (!backend.ok()) return backend.error();
  Backend* const device = backend.value().get();
  Result<std::unique_ptr<PlanRun>> run = PlanRun::Create(lowered_, std::move(backend).value());
  if (!run.ok()) return run.error();
  run_ = std::move(run).value();
  if (fill_buffers) FillBuffers(lowered_.graph, device);
  const FusedPairs pairs = FindFusedPairs(graph(), options_.pairs, &lowered_.arena);
  primitives_ = PrimitivesOf(graph(), pairs);
  for (TaskId id = 0; id < graph().TaskCount(); ++id) {
    const auto primitive = PrimitiveOf(graph(), id, pairs);
    if (!primitive) {
      primitive_.push_back(kNone);
      continue;
    }
    const auto at = std::lower_bound(primitives_.begin(), primitives_.end(), *primitive);
    primitive_.push_back(static_cast<std::uint32_t>(at - primitives_.begin()));
  }
  return Unit{};
}

Status RepeatedRun::RunIteration() {
  times_.clear();
  return run_->RunIteration();
}

Status RepeatedRun::WarmUp(double seconds) {
  const PhaseTimes::Part part(options_.phase_times, &PhaseTime::warming_up_s);
  const Clock::time_point begin = Clock::now();
  int iterations = 0;
  do {
    if (const Status done = RunIteration(); !done.ok()) return done;
    ++iterations;
  } while (Since(begin) < seconds);
  // A device rests while it is asked for times: what follows at once runs at high clocks.
  pause_ = options_.pause_s > 0
               ? std::max(1, static_cast<int>(options_.pause_s * iterations / Since(begin)))
               : 0;
  return Unit{};
}

void RepeatedRun::ReadTimes() {
  if (!times_.empty()) return;
  for (TaskId id = 0; id < graph().TaskCount(); ++id) times_.push_back(run_->Time(id));
}

void RepeatedRun::Collect(Means* means, const std::function<bool(TaskId)>& counts) {
  ReadTimes();
  std::vector<std::vector<double>> times(primitives_.size());
  for (TaskId id = 0; id < graph().TaskCount(); ++id) {
    if (primitive_[id] == kNone || !counts(id)) continue;
    times[primitive_[id]].push_back(Seconds(times_[id]));
  }
  for (std::size_t k = 0; k < times.size(); ++k) {
    if (!times[k].empty()) (*means)[primitives_[k]].push_back(Summarize(times[k]).mean);
  }
}

Status RepeatedRun::Measure(double seconds, const std::function<void()>& collect) {
  const PhaseTimes::Part part(options_.phase_times, &PhaseTime::measuring_s);
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kFewestIterations || Since(begin) < seconds; ++i) {
    for (int k = 0; k <= pause_; ++k) {
      if (const Status done = RunIteration(); !done.ok()) return done;
    }
    ReadTimes();
    collect();
  }
  return Unit{};
}

Status RepeatedRun::Measure(double seconds, Means* means,
                            const std::function<bool(TaskId)>& counts) {
  return Measure(seconds, [&] { Collect(means, counts); });
}

Status RepeatedRun::Measure(double seconds, Means* means) {
  return Measure(seconds, means, [](TaskId) { return true; });
}

double RepeatedRun::IterationSeconds() const {
  std::int64_t end_ns = 0;
  for (TaskId id = 0; id < graph().TaskCount(); ++id) {
    end_ns = std::max(end_ns, Time(id).end_ns);
  }
  return static_cast<double>(end_ns) * kSecondsPerNanosecond;
}

const Primitive* RepeatedRun::PrimitiveOfTask(TaskId id) const {
  return primitive_[id] == kNone ? nullptr : &primitives_[primitive_[id]];
}

std::int64_t RepeatedRun::OverheadBytes() const {
  const auto memory = run_->backend().Memory();
  return memory ? memory->used_bytes - memory->arena_bytes : 0;
}

std::vector<std::int64_t> RepeatedRun::ScratchBytes() const {
  std::vector<std::int64_t> bytes;
  for (TaskId id = 0; id < graph().TaskCount(); ++id) {
    bytes.push_back(run_->backend().ScratchBytes(id));
  }
  return bytes;
}

}  // namespace twinstep
