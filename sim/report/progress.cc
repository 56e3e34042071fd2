#include "sim/report/progress.h"

#include <unistd.h>

#include <algorithm>

#include "sim/format.h"
#include "sim/printable.h"
#include "sim/report/terminal.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kSilence{1000};  // Shorter work is not worth a line.
constexpr milliseconds kRedraw{200};
constexpr std::size_t kBarWidth = 24;

// write() and not stdio: an engine may fork while the watcher draws, and must not inherit a
// locked stream.
void WriteToStderr(const std::string& text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

std::string ProgressLine(std::size_t step, std::size_t steps, const std::string& what,
                         double elapsed_s, std::size_t width, bool counts) {
  const std::size_t done = steps == 0 ? 0 : std::min(step, steps) * kBarWidth / steps;
  std::string bar(done, '=');
  if (done < kBarWidth) bar += '>';
  bar.resize(kBarWidth, ' ');
  const std::string count = counts ? StrCat(std::min(step + 1, steps), "/", steps, " ") : "";
  const std::string line = StrCat("[", bar, "] ", count, what, "  ", Fixed(elapsed_s, 0), " s");
  return std::string(FirstColumns(line, width));
}

Progress::Progress(std::size_t steps, bool force_terminal)
    : steps_(steps), begin_(steady_clock::now()) {
  if (force_terminal || IsTerminal(STDERR_FILENO)) watcher_ = std::thread([this] { Watch(); });
}

Progress::~Progress() { Finish(); }

void Progress::Step(const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (!what_.empty()) ++step_;
  what_ = what;
}

void Progress::StepTo(std::size_t step, const std::string& what) {
  const std::lock_guard lock(mutex_);
  step_ = step;
  counts_ = false;
  what_ = what;
}

void Progress::Tell(const std::string& what) {
  const std::lock_guard lock(mutex_);
  what_ = what;
}

void Progress::Finish() {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  changed_.notify_one();
  watcher_.join();
}

void Progress::Watch() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kSilence, [this] { return finished_; });
  while (!finished_) {
    const std::chrono::duration<double> elapsed = steady_clock::now() - begin_;
    const std::size_t width = TerminalWidth(STDERR_FILENO, 80) - 1;
    WriteToStderr("\r\x1b[K" + ProgressLine(step_, steps_, what_, elapsed.count(), width, counts_));
    drawn_ = true;
    changed_.wait_for(lock, kRedraw, [this] { return finished_; });
  }
  if (drawn_) WriteToStderr("\r\x1b[K");
}

}  // namespace twinstep
