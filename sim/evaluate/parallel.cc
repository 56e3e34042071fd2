#include "sim/evaluate/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace twinstep {

Status ForEachInParallel(std::size_t count, int jobs,
                         const std::function<Status(std::size_t)>& work) {
  std::vector<Status> results(count, Status(Unit{}));
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) results[i] = work(i);
  };
  std::vector<std::thread> threads;
  const std::size_t workers = std::min(count, static_cast<std::size_t>(std::max(1, jobs)));
  for (std::size_t i = 1; i < workers; ++i) threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) {
    if (!result.ok()) return result;
  }
  return Unit{};
}

}  // namespace twinstep
