#include "exec/profile/parallel_runs.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace twinstep {

Status ParallelRuns::Repeat(double seconds, const std::function<void(std::size_t)>& collect) {
  counted_.assign(runs_.size(), 0);
  stop_ = false;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    threads.emplace_back([this, &collect, i] { RepeatOne(i, collect); });
  }
  WaitUntilEnough(seconds);
  for (std::thread& thread : threads) thread.join();
  if (error_.has_value()) return *error_;
  return Unit{};
}

void ParallelRuns::RepeatOne(std::size_t i, const std::function<void(std::size_t)>& collect) {
  // Not all in the same operator at the same time.
  std::this_thread::sleep_for(std::chrono::duration<double>(iteration_s_ * static_cast<double>(i) /
                                                            static_cast<double>(runs_.size())));
  for (bool warm = false; RunIteration(i); warm = true) {
    if (!warm) continue;
    collect(i);
    const std::lock_guard<std::mutex> lock(mutex_);
    ++counted_[i];
    changed_.notify_one();
  }
}

bool ParallelRuns::RunIteration(std::size_t i) {
  const Status done = runs_[i]->RunIteration();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!done.ok()) error_ = done.error();
  if (error_.has_value()) changed_.notify_one();
  return !stop_ && !error_.has_value();
}

void ParallelRuns::WaitUntilEnough(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] {
    return error_.has_value() || std::find(counted_.begin(), counted_.end(), 0) == counted_.end();
  });
  changed_.wait_until(lock, end, [this] { return error_.has_value(); });
  stop_ = true;
}

}  // namespace twinstep
