// A progress line on stderr for work that takes longer than a second, where a person watches.
//
//   Progress progress(6);                       // steps of the work
//   progress.Step("replaying 1,200,000 tasks");  // ends the step before
//   progress.Finish();                          // also at destruction; wipes the line
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace twinstep {

// "[=====>    ] 3/6 replaying  12 s", at most `width` columns. Without `counts` no "3/6".
std::string ProgressLine(std::size_t step, std::size_t steps, const std::string& what,
                         double elapsed_s, std::size_t width, bool counts = true);

class Progress {
 public:
  // Draws only if stderr is a terminal (or `force_terminal`, for tests).
  explicit Progress(std::size_t steps, bool force_terminal = false);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Step(const std::string& what);
  // For work whose steps are not all alike: so many of them are done. The line does not count them.
  void StepTo(std::size_t step, const std::string& what);
  // What the step at hand does now.
  void Tell(const std::string& what);
  void Finish();

 private:
  void Watch();

  const std::size_t steps_;
  const std::chrono::steady_clock::time_point begin_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t step_ = 0;
  bool counts_ = true;
  std::string what_;
  bool finished_ = false;
  bool drawn_ = false;
  std::thread watcher_;
};

}  // namespace twinstep
