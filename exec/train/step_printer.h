// What a person sees of a training: a line a step, and a progress bar if standard error is a
// terminal; and a line of JSON a step for programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <ostream>
#include <string>

#include "exec/train/training.h"
#include "sim/result.h"

namespace twinstep {

// "step 12 loss 3.456789 lr 1.000e-03 12345 tokens/s"
std::string StepLine(const TrainingStep& step);
// {"step":12,"loss":3.4567891,"learning_rate":0.001,"tokens":1024,"iteration_s":0.08}
std::string StepJson(const TrainingStep& step);

class StepPrinter {
 public:
  // `first` steps of `steps` are done. The bar is drawn if stderr is a terminal.
  StepPrinter(std::int64_t first, std::int64_t steps, std::ostream& out);
  ~StepPrinter();
  StepPrinter(const StepPrinter&) = delete;
  StepPrinter& operator=(const StepPrinter&) = delete;

  // Lines of JSON go to this file from now on; an Error names it if it cannot be opened. Appending
  // first drops steps after `first` at its end, and half a line: a training that was killed has
  // logged them, and they run again.
  Status OpenLog(const std::string& path, bool append);
  // An Error if the log cannot be written.
  Status Print(const TrainingStep& step);

 private:
  void DrawBar(std::int64_t step);
  void WipeBar();

  const std::int64_t first_, steps_;
  std::ostream& out_;
  const bool has_bar_;
  const std::chrono::steady_clock::time_point begin_;
  std::string log_path_;
  std::ofstream log_;
};

}  // namespace twinstep
