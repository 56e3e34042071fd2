#include "sim/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace twinstep {

Status ForEachInParallel(std::size_t count, int jobs,
                         const std::function<Status(std::size_t)>& work) {
  std::vector<Status> results(count, Status(Unit{}));
  std::atomic<std::size_t> next = 0;
  std::exception_ptr thrown;
  std::mutex mutex;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) results[i] = work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> threads;
  const std::size_t workers = std::min(count, static_cast<std::size_t>(std::max(1, jobs)));
  try {
    for (std::size_t i = 1; i < workers; ++i) threads.emplace_back(run);
  } catch (const std::system_error&) {
    // Where the system has no more threads, fewer do it all.
  }
  run();
  for (std::thread& thread : threads) thread.join();
  if (thrown) std::rethrow_exception(thrown);
  for (const Status& result : results) {
    if (!result.ok()) return result;
  }
  return Unit{};
}

}  // namespace twinstep
