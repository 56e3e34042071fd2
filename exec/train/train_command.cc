#include "exec/train/train_command.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "exec/runtime/checkpoint.h"
#include "exec/runtime/execution_trace.h"
#include "exec/train/step_printer.h"
#include "exec/train/train_input.h"
#include "exec/train/train_options.h"
#include "exec/train/training.h"
#include "sim/files/atomic_file.h"
#include "sim/format.h"
#include "sim/options/output_files.h"
#include "sim/options/run_verb.h"
#include "sim/str_cat.h"
#include "traces/trace_io.h"

namespace twinstep {
namespace {

class Command {
 public:
  Command(const Options& options, const VerbOutput& output) : options_(options), output_(output) {}

  ExitCode Run() {
    const Result<TrainInput> input = ReadTrainInput(options_);
    if (!input.ok()) return output_.Fail(input.error());
    if (input.value().processes.rank == 0) output_.Warn(input.value().plan.warnings);
    const Status done = Train(input.value());
    return done.ok() ? ExitCode::kDone : output_.Fail(done.error());
  }

 private:
  // What cannot be written, or must not be overwritten, is said before the work and not after it.
  Status CheckOutputs(const TrainInput& input) const {
    if (const auto trace = options_.Get("trace")) {
      const Status known = CheckTraceName(*trace);
      if (!known.ok()) return known;
    }
    const Status free = CheckOutputFiles(options_, Weights(input));
    if (!free.ok()) return free;
    for (const char* option : {"trace", "export"}) {
      const auto path = options_.Get(option);
      if (!path) continue;
      if (const Status writable = CheckWritable(*path); !writable.ok()) return writable;
    }
    if (!input.checkpoint_folder.empty() && input.resume.empty() &&
        HoldsCheckpoints(input.checkpoint_folder)) {
      return Error{.message = StrCat("--save: ", input.checkpoint_folder,
                                     " holds checkpoints of another training; continue it with "
                                     "--resume, or choose another folder")};
    }
    if (!input.checkpoint_folder.empty()) return PrepareCheckpointFolder(input.checkpoint_folder);
    return Unit{};
  }

  // The files of folders that weights are read from or saved to.
  static std::vector<std::string> Weights(const TrainInput& input) {
    std::vector<std::string> files;
    std::error_code error;
    for (const std::string& folder : {input.init_from, input.resume, input.checkpoint_folder}) {
      for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
           at.increment(error)) {
        if (at->path().extension() == ".safetensors") files.push_back(at->path().string());
      }
    }
    return files;
  }

  Status Train(const TrainInput& input) {
    const bool is_first = input.processes.rank == 0;
    if (is_first) {
      if (const Status outputs = CheckOutputs(input); !outputs.ok()) return outputs;
    }
    std::vector<std::string> warnings;
    Result<std::unique_ptr<Training>> started = Training::Start(input, &warnings);
    if (is_first) output_.Warn(warnings);
    if (!started.ok()) return started.error();
    Training& training = *started.value();
    if (training.step() >= input.schedule.steps) {
      output_.Warn(StrCat("nothing to do: the checkpoint has done ", training.step(), " of ",
                          input.schedule.steps, " steps"));
    }
    if (const Status steps = RunSteps(input, &training); !steps.ok()) return steps;
    PrintMemory(input, training);
    if (const Status written = WriteFiles(training); !written.ok()) return written;
    return training.WaitForAll();
  }

  void PrintMemory(const TrainInput& input, const Training& training) const {
    if (input.processes.rank != 0) return;
    const std::optional<BackendMemory> memory = training.backend().Memory();
    if (!memory.has_value()) return;
    output_.out() << "GPU memory: " << Bytes(static_cast<double>(memory->used_bytes)) << " of "
                  << Bytes(static_cast<double>(memory->total_bytes))
                  << " in use, as the driver says; arenas "
                  << Bytes(static_cast<double>(memory->arena_bytes))
                  << ", scratch of library kernels "
                  << Bytes(static_cast<double>(memory->scratch_bytes)) << "\n";
  }

  Status RunSteps(const TrainInput& input, Training* training) {
    std::optional<StepPrinter> printer;
    if (input.processes.rank == 0) {
      printer.emplace(training->step(), input.schedule.steps, output_.out());
    }
    if (const auto path = options_.Get("log"); path && printer.has_value()) {
      const Status opened = printer->OpenLog(*path, /*append=*/!input.resume.empty());
      if (!opened.ok()) return opened;
    }
    while (training->step() < input.schedule.steps) {
      const Result<TrainingStep> step = training->RunStep();
      if (!step.ok()) return step.error();
      if (printer.has_value()) {
        if (const Status printed = printer->Print(step.value()); !printed.ok()) return printed;
      }
      if (!std::isfinite(step.value().loss)) {
        return Error{.code = ExitCode::kNo,
                     .message = StrCat("the loss of step ", step.value().step, " is ",
                                       step.value().loss, "; no checkpoint of it is saved")};
      }
      if (IsCheckpointDue(input, *training)) {
        if (const Status saved = training->Save(); !saved.ok()) return saved;
      }
    }
    return Unit{};
  }

  static bool IsCheckpointDue(const TrainInput& input, const Training& training) {
    if (input.checkpoint_folder.empty()) return false;
    if (training.step() == input.schedule.steps) return true;
    return input.checkpoint_every > 0 && training.step() % input.checkpoint_every == 0;
  }

  Status WriteFiles(const Training& training) {
    if (const auto path = options_.Get("export")) {
      if (const Status written = training.Export(*path); !written.ok()) return written;
    }
    if (const auto path = options_.Get("trace")) {
      const std::string name = StrCat("step ", training.step(), " of ", *options_.Get("model"));
      return WriteTrace(
          BuildExecutionTrace(training.graph(), training.executor().LastExecution(), name), {},
          *path);
    }
    return Unit{};
  }

  const Options& options_;
  const VerbOutput& output_;
};

}  // namespace

ExitCode RunTrainCommand(const std::vector<std::string>& arguments, std::ostream& out,
                         std::ostream& err) {
  const VerbOutput output("train", out, err);
  return RunVerb(
      output, ParseTrainOptions(arguments), TrainHelp,
      [&](const Options& options) { return Command(options, output).Run(); },
      Writer::kPerhapsAnother);
}

}  // namespace twinstep
