#include "exec/train/step_printer.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "sim/report/progress.h"
#include "sim/report/terminal.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

void WriteToStderr(const std::string& text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

std::string StepLine(const TrainingStep& step) {
  char text[128];
  std::snprintf(text, sizeof text, "step %lld loss %.6f lr %.3e %.0f tokens/s",
                static_cast<long long>(step.step), step.loss, step.learning_rate,
                static_cast<double>(step.tokens) / step.iteration_s);
  return text;
}

std::string StepJson(const TrainingStep& step) {
  // A loss that is no number is null.
  const nlohmann::ordered_json json = {{"step", step.step},
                                       {"loss", step.loss},
                                       {"learning_rate", step.learning_rate},
                                       {"tokens", step.tokens},
                                       {"iteration_s", step.iteration_s}};
  return json.dump();
}

StepPrinter::StepPrinter(std::int64_t first, std::int64_t steps, std::ostream& out)
    : first_(first),
      steps_(steps),
      out_(out),
      has_bar_(IsTerminal(STDERR_FILENO)),
      begin_(std::chrono::steady_clock::now()) {
  DrawBar(first);
}

StepPrinter::~StepPrinter() { WipeBar(); }

Status StepPrinter::OpenLog(const std::string& path, bool append) {
  log_path_ = path;
  log_.open(path, append ? std::ios::app : std::ios::trunc);
  if (!log_) return Error{.message = StrCat(path, ": cannot open: ", std::strerror(errno))};
  return Unit{};
}

Status StepPrinter::Print(const TrainingStep& step) {
  WipeBar();
  out_ << StepLine(step) << std::endl;  // Whoever follows the output sees each step at once.
  DrawBar(step.step);
  if (!log_.is_open()) return Unit{};
  log_ << StepJson(step) << std::endl;
  if (!log_) return Error{.message = StrCat(log_path_, ": cannot write: ", std::strerror(errno))};
  return Unit{};
}

void StepPrinter::DrawBar(std::int64_t step) {
  if (!has_bar_ || step >= steps_) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  const std::int64_t done = step - first_;
  const std::string left = done == 0
                               ? ""
                               : StrCat(", ",
                                        std::lround(elapsed.count() / static_cast<double>(done) *
                                                    static_cast<double>(steps_ - step)),
                                        " s left,");
  WriteToStderr(ProgressLine(static_cast<std::size_t>(step), static_cast<std::size_t>(steps_),
                             StrCat("steps", left), elapsed.count(),
                             TerminalWidth(STDERR_FILENO, 80) - 1));
}

void StepPrinter::WipeBar() {
  if (has_bar_) WriteToStderr("\r\x1b[K");
}

}  // namespace twinstep
