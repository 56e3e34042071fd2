#include "exec/train/train_options.h"

#include <string_view>

#include "sim/options/input_options.h"
#include "sim/options/local_plan.h"
#include "sim/options/plan_options.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

OptionGroup InputOptions() {
  OptionGroup group = {"What to train",
                       {ModelOption(),
                        Reads({"data", "FILE", "the text to train on (required)"}),
                        {"tokenizer", "NAME", "bytes: a token is a byte (default)"},
                        {"set", "FIELD=VALUE",
                         "change a field of the model, by its path as in the file: --set layers=2. "
                         "May be repeated",
                         /*repeats=*/true}}};
  AppendOptions(BatchOptions(), &group.options);
  return group;
}

const std::vector<OptionGroup>& Groups() {
  static const std::vector<OptionGroup> kGroups = [] {
    std::vector<OptionGroup> groups = TrainingGroups();
    groups.push_back(
        {"Checkpoints and output",
         {MakesFolder(
              {"save", "FOLDER", "where checkpoints are saved, the last one after the last step"}),
          {"save-every", "N", "steps between checkpoints (default: only after the last step)"},
          {"save-keep", "N", "checkpoints that stay; 0: all (default: 2)"},
          Reads({"resume", "PATH", "continue from a checkpoint, or from the latest of a folder"}),
          Writes({"export", "FILE", "write the trained weights with Hugging Face's names"}),
          Writes({"log", "FILE",
                  "a line of JSON a step; resuming appends, in place of steps that run again"}),
          Writes({"trace", "FILE",
                  "when each task of the last step ran: .json (ui.perfetto.dev, chrome://tracing) "
                  "or .pb"}),
          {"help", nullptr, "this text"}}});
    return groups;
  }();
  return kGroups;
}

constexpr std::string_view kExamples = R"(
Examples
  A small model on a text, in under a minute:
    twinstep train --model tiny-llama --data README.md --steps 300 --lr 5e-3 --global-batch 8 \
        --micro-batch 4
  The same numbers by another plan: four ranks in two pipeline stages
    twinstep train --model tiny-llama --data README.md --steps 300 --lr 5e-3 --global-batch 8 \
        --micro-batch 4 --pp 2 --dp 2
  Save every 100 steps; go on after an interruption:
    twinstep train ... --save run --save-every 100 --resume run

Exit status
  0 done   1 the plan is infeasible, or the loss is no number   2 bad input   3 internal error
)";

}  // namespace

std::vector<OptionGroup> TrainingGroups() {
  return {
      InputOptions(),
      {"How to train",
       {{"steps", "N", "steps of the whole training, those before --resume too (required)"},
        {"lr", "X", "learning rate after the warm-up (default: 1e-3)"},
        {"min-lr", "X",
         "learning rate of the last step, reached by half a cosine (default: lr/10)"},
        {"warmup", "N", "steps of linear warm-up (default: steps/20)"},
        {"weight-decay", "X", "of matrices; norms and biases have none (default: 0.1)"},
        {"beta1", "X", "decay of Adam's first moment (default: 0.9)"},
        {"beta2", "X", "decay of Adam's second moment (default: 0.95)"},
        {"seed", "N", "of initial weights, data order and dropout (default: 1)"},
        Reads(
            {"init-from", "PATH",
             "weights to begin with: a safetensors file or a folder, with Hugging Face's names of "
             "GPT-2 or Llama"})}},
      RecipeOptions(),
      LocalPlanOptions(),
      {"Execution",
       {{"backend", "NAME",
         "cpu (default), or cuda: the ranks on this machine's GPUs, or split evenly over the "
         "processes that torchrun, mpirun or srun starts"},
        {"deterministic", nullptr,
         "cuda: the same bits in every run and by every plan that only schedules or places "
         "differently, which --backend cpu always gives"},
        {"gpu-memory-capacity", "BYTES",
         "cuda: what arenas and kernels' scratch must fit, with a suffix such as GB (default: what "
         "the GPU has)"},
        {"threads", "N",
         "threads of the CPU backend, of cuda those of each process's host tasks (default: one a "
         "core; processes that may use the same cores share them)"},
        {"shuffle-seed", "N", "dispatch in another legal order each step, drawn with this seed"},
        {"poison", nullptr, "check every access against the buffers' lives"}}},
  };
}

Result<Options> ParseTrainOptions(const std::vector<std::string>& arguments) {
  return ParseOptions(Groups(), "train", arguments);
}

std::string TrainHelp() {
  return StrCat("twinstep train: trains a model by the graph that simulate replays\n\n",
                "  twinstep train --model NAME|FILE --data FILE --steps N --global-batch N "
                "[OPTION ...]\n",
                OptionsHelp(Groups()), kExamples);
}

}  // namespace twinstep
