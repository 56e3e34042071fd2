#include "exec/train/step_printer.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "sim/report/progress.h"
#include "sim/report/terminal.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

void WriteToStderr(const std::string& text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

constexpr std::string_view kLineBegin = "{\"step\":";

// Whether a line of a log is one of StepJson, of a step after `step`; or its first half.
bool IsLater(std::string_view line, std::int64_t step) {
  if (!line.ends_with('\n')) {
    return kLineBegin.substr(0, line.size()) == line.substr(0, kLineBegin.size());
  }
  if (!line.starts_with(kLineBegin)) return false;
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json["step"].is_number_integer() && json["step"] > step;
}

Status DropStepsAfter(std::int64_t step, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return Unit{};
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return Error{.message = StrCat(path, ": cannot read: ", std::strerror(errno))};
  std::string_view kept = text;
  while (!kept.empty()) {
    // The newline that ends the line before the last; npos + 1 is 0.
    const std::size_t begin = kept.substr(0, kept.size() - 1).rfind('\n') + 1;
    if (!IsLater(kept.substr(begin), step)) break;
    kept = kept.substr(0, begin);
  }
  if (kept.size() == text.size()) return Unit{};
  std::filesystem::resize_file(path, kept.size(), error);
  if (error) return Error{.message = StrCat(path, ": cannot shorten: ", error.message())};
  return Unit{};
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
  if (append) {
    if (const Status kept = DropStepsAfter(first_, path); !kept.ok()) return kept;
  }
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
