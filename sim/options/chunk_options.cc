#include "sim/options/chunk_options.h"

#include <optional>
#include <sstream>
#include <utility>

#include "sim/options/read_option.h"
#include "sim/plan/plan_names.h"
#include "sim/str_cat.h"
#include "sim/textproto/quantity.h"
#include "sim/textproto/text_file.h"

namespace twinstep {
namespace {

constexpr std::int64_t kMostRepeats = std::int64_t{1} << 16;

Status ReadBlocks(const Options& options, Plan* plan) {
  const auto path = options.Get("blocks");
  if (!path) return Unit{};
  for (const char* name : {"swap", "checkpoint", "swap-interval"}) {
    if (options.Has(name)) {
      return OptionError("blocks", StrCat("chooses for every block; --", name, " goes without it"));
    }
  }
  const Result<std::string> text = ReadTextFile(*path);
  if (!text.ok()) return text.error();
  const Result<std::vector<BlockActivations>> blocks = ParseBlockList(text.value(), *path);
  if (!blocks.ok()) return blocks.error();
  plan->clear_blocks();
  for (const BlockActivations choice : blocks.value()) plan->add_blocks(choice);
  plan->clear_swapped_blocks();
  plan->clear_checkpointed_blocks();
  plan->clear_swap_interval();
  return Unit{};
}

}  // namespace

OptionGroup ChunkOptions() {
  return {
      "Chunks and blocks (ProTrain): where model states and activations are",
      {{"preset", "NAME",
        "begin with the plan of another system: fsdp-offload, zero3-offload, gemini-static or "
        "zero-offload; other options override it"},
       {"persist", "N",
        "chunks of model states that stay on the GPU, the first that are used; the others stream "
        "from host memory and are updated by the CPU (default: no chunks, all on the GPU)"},
       {"buffers", "N",
        "GPU buffers that chunks stream through, kept as a cache from the forward to the backward "
        "(default: 3); no more are made than there are such chunks"},
       {"chunk-size", "BYTES",
        "of a chunk's parameters, with a suffix such as MiB (default: by search for the least "
        "waste)"},
       {"optimizer-overlap", "on|off", "CPU Adam beside the backward, or after it (default: on)"},
       {"swap", "N", "blocks whose activations wait in host memory (default: 0)"},
       {"checkpoint", "N", "blocks that store their input only (default: 0)"},
       {"swap-interval", "N",
        "one swapped block in N (default: spread over the swapped and checkpointed blocks)"},
       Reads({"blocks", "FILE",
              "the choice of each block instead: words keep, checkpoint, swap, one a layer, "
              "\"12 x keep\" for many"})}};
}

Status ApplyChunkOptions(const Options& options, Plan* plan) {
  if (options.Has("swap") || options.Has("checkpoint")) plan->clear_blocks();
  return FirstError({
      ReadInteger(options, "persist", 0, [&](auto x) { plan->set_persistent_chunks(x); }),
      ReadInteger(options, "buffers", 1, [&](auto x) { plan->set_chunk_buffers(x); }),
      ReadInteger(options, "chunk-size", 1, [&](auto x) { plan->set_chunk_bytes(x); }),
      ReadOnOff(options, "optimizer-overlap", [&](bool x) { plan->set_host_optimizer_overlap(x); }),
      ReadInteger(options, "swap", 0, [&](auto x) { plan->set_swapped_blocks(x); }),
      ReadInteger(options, "checkpoint", 0, [&](auto x) { plan->set_checkpointed_blocks(x); }),
      ReadInteger(options, "swap-interval", 1, [&](auto x) { plan->set_swap_interval(x); }),
      ReadBlocks(options, plan),
  });
}

Result<std::vector<BlockActivations>> ParseBlockList(const std::string& text,
                                                     const std::string& source) {
  std::vector<BlockActivations> blocks;
  std::istringstream lines(text);
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto error = [&](const std::string& what) {
      return Error{.message = StrCat(source, ":", number, ": ", what)};
    };
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) {
      std::int64_t repeats = 1;
      if (word[0] >= '0' && word[0] <= '9') {
        const Result<std::int64_t> count = ParseInteger(word);
        std::string times;
        if (!count.ok() || count.value() < 1 || count.value() > kMostRepeats || !(words >> times) ||
            times != "x" || !(words >> word)) {
          return error(StrCat("'", word, "' begins no \"12 x keep\" (1 to ", kMostRepeats, ")"));
        }
        repeats = count.value();
      }
      std::optional<BlockActivations> choice;
      for (const Choice<BlockActivations>& x : Choices(BlockActivations{})) {
        if (word == x.name) choice = x.value;
      }
      if (!choice) return error(StrCat("'", word, "' is none of keep, checkpoint, swap"));
      if (static_cast<std::int64_t>(blocks.size()) + repeats > kMostRepeats) {
        return error(StrCat("more than ", kMostRepeats, " blocks"));
      }
      blocks.insert(blocks.end(), static_cast<std::size_t>(repeats), *choice);
    }
  }
  if (blocks.empty()) return Error{.message = StrCat(source, ": names no block's choice")};
  return blocks;
}

}  // namespace twinstep
