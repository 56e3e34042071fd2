#include "sim/plan/resolved_plan.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/plan/plan_limits.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::int64_t kMaxListedLayers = std::int64_t{1} << 16;
// One computes, one is filled, one is emptied (ProTrain).
constexpr std::int64_t kDefaultChunkBuffers = 3;

Error Impossible(std::string rule, std::string message) {
  return {.code = ExitCode::kNo, .message = std::move(message), .rule = std::move(rule)};
}

Error BadValue(std::string rule, std::string message) {
  return {.code = ExitCode::kBadInput, .message = std::move(message), .rule = std::move(rule)};
}

// 0 is the default `otherwise`; a negative or absurd value an error.
Status Size(const char* field, std::int64_t value, std::int64_t otherwise, std::int64_t most,
            std::int64_t* out) {
  if (value < 0 || value > most) {
    return BadValue("plan-value",
                    StrCat("plan field ", field, " is ", value, ", not between 0 and ", most));
  }
  *out = value == 0 ? otherwise : value;
  return Unit{};
}

// The names of a rank order, or none if it is no permutation of the four.
std::optional<std::array<std::string_view, 4>> SplitRankOrder(std::string_view order) {
  std::array<std::string_view, 4> names;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t dash = i < 3 ? order.find('-') : order.size();
    if (dash == std::string_view::npos) return std::nullopt;
    names[i] = order.substr(0, dash);
    order.remove_prefix(std::min(dash + 1, order.size()));
  }
  auto sorted = names;
  std::ranges::sort(sorted);
  if (sorted != std::array<std::string_view, 4>{"cp", "dp", "pp", "tp"}) return std::nullopt;
  return names;
}

class Resolver {
 public:
  Resolver(const Model& model, const Cluster& cluster, const Plan& plan, std::int64_t gpus,
           const PlanRules& rules)
      : model_(model), cluster_(cluster), plan_(plan), rules_(rules) {
    out_.gpus = gpus;
  }

  Result<ResolvedPlan> Run() {
    for (const auto step : {&Resolver::CheckInputs, &Resolver::Sizes, &Resolver::Stages,
                            &Resolver::Options, &Resolver::Batch, &Resolver::Shapes,
                            &Resolver::Chunks, &Resolver::Blocks, &Resolver::KuaishouLimits}) {
      const Status status = (this->*step)();
      if (!status.ok()) return status.error();
    }
    DropWhatChangesNothing();
    return std::move(out_);
  }

 private:
  std::int64_t KvHeads() const {
    return model_.kv_heads() > 0 ? model_.kv_heads() : model_.attention_heads();
  }

  Status CheckInputs() {
    if (model_.layers() < 1 || model_.attention_heads() < 1 || KvHeads() < 1 ||
        model_.ffn_hidden_size() < 1) {
      return BadValue("model-value", StrCat("model '", model_.name(),
                                            "' needs positive layers, attention_heads and "
                                            "ffn_hidden_size"));
    }
    const std::int64_t nodes = cluster_.nodes(), gpus_per_node = cluster_.node().gpus();
    if (nodes < 1 || gpus_per_node < 1 || nodes > kMaxPlanSize || gpus_per_node > kMaxPlanSize) {
      return BadValue("cluster-value", StrCat("cluster '", cluster_.name(), "' has ", nodes,
                                              " nodes of ", gpus_per_node, " GPUs"));
    }
    if (out_.gpus < 1) return BadValue("plan-value", StrCat("the plan has ", out_.gpus, " GPUs"));
    if (out_.gpus > nodes * gpus_per_node) {
      return Impossible("gpus-available", StrCat("the plan has ", out_.gpus, " GPUs, cluster '",
                                                 cluster_.name(), "' has ", nodes * gpus_per_node,
                                                 " (", nodes, " nodes of ", gpus_per_node, ")"));
    }
    return Unit{};
  }

  Status Sizes() {
    std::int64_t d = 0;
    for (const Status& status :
         {Size("tensor_parallel", plan_.tensor_parallel(), 1, kMaxPlanSize, &out_.t),
          Size("context_parallel", plan_.context_parallel(), 1, kMaxPlanSize, &out_.c),
          Size("pipeline_parallel", plan_.pipeline_parallel(), 1, kMaxPlanSize, &out_.p),
          Size("data_parallel", plan_.data_parallel(), 0, kMaxPlanSize, &d)}) {
      if (!status.ok()) return status.error();
    }
    // Factor by factor: the product of three unchecked sizes can overflow.
    const std::int64_t gpus = out_.gpus;
    const auto sizes = [this] { return StrCat("t c p = ", out_.t, " x ", out_.c, " x ", out_.p); };
    if (gpus % out_.t != 0 || gpus / out_.t % out_.c != 0 || gpus / out_.t / out_.c % out_.p != 0) {
      return Impossible("gpus-divide", StrCat(sizes(), " does not divide ", gpus, " GPUs"));
    }
    out_.d = gpus / out_.t / out_.c / out_.p;
    if (d != 0 && d != out_.d) {
      return Impossible("gpus-divide", StrCat(sizes(), " on ", gpus, " GPUs leaves d = ", out_.d,
                                              ", the plan says ", d));
    }
    return Unit{};
  }

  Status Stages() {
    const std::int64_t layers = model_.layers();
    std::int64_t v = 0, l = 0;
    for (const Status& status :
         {Size("virtual_stages", plan_.virtual_stages(), 0, kMaxPlanSize, &v),
          Size("layers_per_stage", plan_.layers_per_stage(), 0, kMaxPlanSize, &l)}) {
      if (!status.ok()) return status.error();
    }
    if (v == 0 && l == 0) v = 1;
    // One of v and l is given, or both; p v and p l are below 2^52.
    const std::int64_t fixed = v != 0 ? v : l;
    if (layers % (out_.p * fixed) != 0) {
      return Impossible("layers-divide", StrCat("p ", v != 0 ? "v" : "l", " = ", out_.p, " x ",
                                                fixed, " does not divide the ", layers, " layers"));
    }
    const std::int64_t rest = layers / (out_.p * fixed);
    if (v != 0 && l != 0 && l != rest) {
      return Impossible("layers-divide", StrCat("p v l = ", out_.p, " x ", v, " x ", l, " is not ",
                                                layers, " layers"));
    }
    out_.v = v != 0 ? v : rest;
    out_.l = v != 0 ? rest : l;
    if (out_.v > 1 && out_.p == 1) {
      return Impossible("virtual-stages-need-pipeline",
                        StrCat("v = ", out_.v, " stages a device need p >= 2, p is 1"));
    }

    switch (plan_.schedule()) {
      case SCHEDULE_DEFAULT:
        out_.schedule = out_.v > 1 ? INTERLEAVED_1F1B : ONE_F_ONE_B;
        break;
      case GPIPE:
      case ONE_F_ONE_B:
      case INTERLEAVED_1F1B:
        out_.schedule = plan_.schedule();
        break;
      default:
        return BadValue("plan-value", StrCat("plan field schedule is ", plan_.schedule(),
                                             ", which is no schedule"));
    }
    if ((out_.schedule == INTERLEAVED_1F1B) != (out_.v > 1)) {
      return Impossible("schedule-stages",
                        StrCat("schedule ", Schedule_Name(out_.schedule), " with v = ", out_.v,
                               ": more than one stage a device is what INTERLEAVED_1F1B is for"));
    }
    return Unit{};
  }

  Status Options() {
    if (!plan_.rank_order().empty()) out_.rank_order = plan_.rank_order();
    if (!SplitRankOrder(out_.rank_order)) {
      return BadValue("plan-value", StrCat("plan field rank_order is '", out_.rank_order,
                                           "', not an order of tp, cp, dp, pp such as "
                                           "'tp-cp-dp-pp'"));
    }
    out_.sequence_parallel = plan_.has_sequence_parallel() ? plan_.sequence_parallel() : out_.t > 1;
    switch (plan_.tensor_parallel_overlap()) {
      case TP_OVERLAP_DEFAULT:
      case TP_OVERLAP_NONE:
        out_.tp_overlap = TP_OVERLAP_NONE;
        break;
      case TP_OVERLAP_CHUNKED:
        out_.tp_overlap = TP_OVERLAP_CHUNKED;
        break;
      default:
        return BadValue("plan-value",
                        StrCat("plan field tensor_parallel_overlap is ",
                               plan_.tensor_parallel_overlap(), ", which is no overlap"));
    }
    out_.dp_overlap = plan_.data_parallel_overlap();
    out_.zero_stage = plan_.has_zero_stage() ? plan_.zero_stage() : 1;
    if (out_.zero_stage < 0 || out_.zero_stage > 3) {
      return BadValue("plan-value",
                      StrCat("plan field zero_stage is ", out_.zero_stage, ", not 0 to 3"));
    }
    switch (plan_.recompute()) {
      case RECOMPUTE_DEFAULT:
        out_.recompute = RECOMPUTE_NONE;
        break;
      case RECOMPUTE_NONE:
      case RECOMPUTE_SELECTIVE:
      case RECOMPUTE_BALANCED:
      case RECOMPUTE_FULL:
      case RECOMPUTE_CUSTOM:
        out_.recompute = plan_.recompute();
        break;
      default:
        return BadValue("plan-value", StrCat("plan field recompute is ", plan_.recompute(),
                                             ", which is no recomputation"));
    }
    out_.stored_tensors.assign(plan_.stored_tensors().begin(), plan_.stored_tensors().end());
    if ((out_.recompute == RECOMPUTE_CUSTOM) == out_.stored_tensors.empty()) {
      return BadValue("plan-value",
                      StrCat("plan field stored_tensors has ", out_.stored_tensors.size(),
                             " names with recompute ", Recompute_Name(out_.recompute),
                             ": they go with RECOMPUTE_CUSTOM and with nothing else"));
    }
    switch (plan_.attention()) {
      case ATTENTION_DEFAULT:
      case ATTENTION_FLASH:
        out_.attention = ATTENTION_FLASH;
        break;
      case ATTENTION_UNFUSED:
        out_.attention = ATTENTION_UNFUSED;
        break;
      default:
        return BadValue("plan-value", StrCat("plan field attention is ", plan_.attention(),
                                             ", which is no attention kernel"));
    }
    // Written so that NaN fails.
    if (!(plan_.offload_ratio() >= 0 && plan_.offload_ratio() <= 1)) {
      return BadValue("plan-value", StrCat("plan field offload_ratio is ", plan_.offload_ratio(),
                                           ", not between 0 and 1"));
    }
    out_.offload_ratio = plan_.offload_ratio();
    return Unit{};
  }

  Status Batch() {
    for (const Status& status :
         {Size("micro_batch", plan_.micro_batch(), 1, kMaxPlanBatch, &out_.b),
          Size("global_batch", plan_.global_batch(), 0, kMaxPlanBatch, &out_.global_batch),
          Size("sequence_length", plan_.sequence_length(), model_.max_sequence_length(),
               kMaxPlanSequence, &out_.sequence_length)}) {
      if (!status.ok()) return status.error();
    }
    if (out_.global_batch == 0) {
      return BadValue("plan-value",
                      "plan field global_batch is missing (--global-batch); it has no default");
    }
    if (out_.sequence_length < 1 || out_.sequence_length > kMaxPlanSequence) {
      return BadValue("plan-value", StrCat("sequence_length is ", out_.sequence_length,
                                           " (plan field sequence_length, else the model's "
                                           "max_sequence_length), not between 1 and ",
                                           kMaxPlanSequence));
    }
    const std::int64_t per_step = out_.b * out_.d;  // Both below 2^26.
    if (out_.global_batch % per_step != 0) {
      return Impossible("batch-divides",
                        StrCat("b d = ", out_.b, " x ", out_.d,
                               " does not divide the global batch ", out_.global_batch));
    }
    out_.m = out_.global_batch / per_step;
    if (out_.v > 1 && out_.m % out_.p != 0) {
      return Impossible("microbatches-interleaved",
                        StrCat("m = B / (b d) = ", out_.m, " micro-batches are no multiple of p = ",
                               out_.p, ", which interleaving (v = ", out_.v, ") needs"));
    }
    return Unit{};
  }

  Status Shapes() {
    struct Split {
      const char* rule;
      const char* what;
      std::int64_t size;
    };
    for (const Split& split :
         {Split{"heads-divide", "attention heads", model_.attention_heads()},
          Split{"kv-heads-divide", "key and value heads", KvHeads()},
          Split{"ffn-divide", "features of the feed-forward layer", model_.ffn_hidden_size()}}) {
      if (split.size % out_.t != 0) {
        return Impossible(split.rule, StrCat("t = ", out_.t, " does not divide the ", split.size,
                                             " ", split.what));
      }
    }
    const std::int64_t s = out_.sequence_length;
    if (out_.c > 1 && s % (2 * out_.c) != 0) {
      return Impossible("sequence-divides",
                        StrCat("2 c = ", 2 * out_.c, " does not divide the sequence length ", s,
                               " (causal balance pairs pieces of the sequence)"));
    }
    const bool splits_tokens = out_.sequence_parallel || out_.tp_overlap == TP_OVERLAP_CHUNKED;
    if (splits_tokens && s / out_.c % out_.t != 0) {
      return Impossible(
          "sequence-divides",
          StrCat("t = ", out_.t, " does not divide the ", s / out_.c,
                 " positions of a rank (s / c = ", s, " / ", out_.c, "), which ",
                 out_.sequence_parallel ? "sequence parallelism" : "tensor-parallel overlap",
                 " needs"));
    }
    // Every byte count of an iteration must fit in 64 bits, with some room.
    const auto real = [](std::int64_t value) { return static_cast<double>(value); };
    const double scores =
        out_.attention == ATTENTION_UNFUSED ? real(model_.attention_heads()) * real(s) : 0;
    const double token_bytes =
        64.0 * real(model_.layers()) *
            (real(model_.hidden_size()) + real(model_.ffn_hidden_size()) + scores) +
        16.0 * real(model_.vocab_size());
    if (real(out_.b) * real(out_.m) * real(s) * token_bytes > 0x1p61) {
      return BadValue("plan-value", StrCat("the activations of a pipeline (b m s = ", out_.b, " x ",
                                           out_.m, " x ", s, " tokens) exceed 2^61 bytes"));
    }
    if (model_.family() == GPT && s > model_.max_sequence_length()) {
      return Impossible(
          "sequence-positions",
          StrCat("sequence length ", s, " is more than the ", model_.max_sequence_length(),
                 " learned positions of model '", model_.name(), "' (max_sequence_length)"));
    }
    return Unit{};
  }

  Status Chunks() {
    ChunkPlan& chunks = out_.chunks;
    chunks.enabled =
        plan_.has_persistent_chunks() || plan_.chunk_buffers() != 0 || plan_.chunk_bytes() != 0;
    for (const Status& status :
         {Size("persistent_chunks", plan_.persistent_chunks(), 0, kMaxPlanSize, &chunks.persistent),
          Size("chunk_buffers", plan_.chunk_buffers(), kDefaultChunkBuffers, kMaxPlanSize,
               &chunks.buffers),
          Size("chunk_bytes", plan_.chunk_bytes(), 0, kMaxPlanChunkBytes, &chunks.chunk_bytes)}) {
      if (!status.ok()) return status.error();
    }
    chunks.host_optimizer_overlap =
        !plan_.has_host_optimizer_overlap() || plan_.host_optimizer_overlap();
    return Unit{};
  }

  Status Blocks() {
    if (plan_.blocks().empty()) {
      if (const Status status = ArrangeBlocks(); !status.ok()) return status.error();
    } else if (const Status status = ListedBlocks(); !status.ok()) {
      return status.error();
    }
    const auto layers = static_cast<std::int64_t>(out_.blocks.size());
    const auto is = [this](BlockActivations choice) {
      return std::ranges::find(out_.blocks, choice) != out_.blocks.end();
    };
    if (!is(BLOCK_SWAP) && !is(BLOCK_CHECKPOINT)) out_.blocks.clear();
    if (out_.offload_ratio == 0 || out_.p == 1 || out_.blocks.empty()) return Unit{};
    if (is(BLOCK_SWAP)) {
      return Impossible("swap-offload",
                        StrCat("swapped blocks and offload_ratio ", out_.offload_ratio,
                               " move the same activations to host memory: choose one of them"));
    }
    for (std::int64_t layer = out_.l; layer < layers; ++layer) {
      if (out_.blocks[Index(layer)] == out_.blocks[Index(layer % out_.l)]) continue;
      return Impossible("blocks-offload",
                        StrCat("blocks: layer ", layer, " of stage ", layer / out_.l,
                               " is another choice than layer ", layer % out_.l,
                               " of stage 0, and offload_ratio ", out_.offload_ratio,
                               " needs stages that store alike"));
    }
    return Unit{};
  }

  static std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }

  Status ListedBlocks() {
    if (plan_.swapped_blocks() != 0 || plan_.checkpointed_blocks() != 0 ||
        plan_.swap_interval() != 0) {
      return BadValue("plan-value",
                      "plan field blocks names every block's choice: swapped_blocks, "
                      "checkpointed_blocks and swap_interval go without it");
    }
    if (plan_.blocks_size() != model_.layers()) {
      return BadValue("plan-value", StrCat("plan field blocks has ", plan_.blocks_size(),
                                           " choices, the model ", model_.layers(), " layers"));
    }
    for (int layer = 0; layer < plan_.blocks_size(); ++layer) {
      BlockActivations choice = plan_.blocks(layer);
      if (choice == BLOCK_DEFAULT) choice = BLOCK_KEEP;
      if (choice != BLOCK_KEEP && choice != BLOCK_CHECKPOINT && choice != BLOCK_SWAP) {
        return BadValue("plan-value", StrCat("plan field blocks: ", static_cast<int>(choice),
                                             " of layer ", layer, " is no choice"));
      }
      out_.blocks.push_back(choice);
    }
    return Unit{};
  }

  // ProTrain's interleaved arrangement, in each stage: the blocks that are swapped lie an interval
  // apart, so that computing what is between hides each copy; kept blocks are last, so that the
  // backward frees their memory first.
  Status ArrangeBlocks() {
    std::int64_t swapped = 0, checkpointed = 0, interval = 0;
    for (const Status& status :
         {Size("swapped_blocks", plan_.swapped_blocks(), 0, kMaxPlanSize, &swapped),
          Size("checkpointed_blocks", plan_.checkpointed_blocks(), 0, kMaxPlanSize, &checkpointed),
          Size("swap_interval", plan_.swap_interval(), 0, kMaxPlanSize, &interval)}) {
      if (!status.ok()) return status.error();
    }
    if (swapped == 0 && interval != 0) {
      return BadValue("plan-value", "plan field swap_interval goes with swapped_blocks");
    }
    if (swapped == 0 && checkpointed == 0) return Unit{};
    if (model_.layers() > kMaxListedLayers) {
      return BadValue("plan-value",
                      StrCat("model '", model_.name(), "' has ", model_.layers(),
                             " layers; blocks are chosen for at most ", kMaxListedLayers));
    }
    const std::int64_t stages = out_.p * out_.v;
    if (swapped % stages != 0 || checkpointed % stages != 0) {
      return Impossible("blocks-stages",
                        StrCat("p v = ", stages, " stages do not divide ", swapped, " swapped and ",
                               checkpointed, " checkpointed blocks"));
    }
    swapped /= stages;
    checkpointed /= stages;
    if (swapped + checkpointed > out_.l) {
      return Impossible("blocks-count", StrCat("a stage of ", out_.l, " blocks would swap ",
                                               swapped, " and checkpoint ", checkpointed));
    }
    if (swapped > 0 && interval == 0) {
      const std::int64_t spread = checkpointed > 0 ? swapped + checkpointed : out_.l;
      interval = spread / swapped;
    }
    if (swapped > 0 && (swapped - 1) * interval >= out_.l) {
      return Impossible("swap-interval",
                        StrCat("swapping ", swapped, " blocks, one every ", interval, ", needs ",
                               (swapped - 1) * interval + 1, " blocks; a stage has ", out_.l));
    }
    std::vector<BlockActivations> stage(Index(out_.l), BLOCK_KEEP);
    for (std::int64_t k = 0; k < swapped; ++k) stage[Index(k * interval)] = BLOCK_SWAP;
    for (BlockActivations& choice : stage) {
      if (checkpointed == 0) break;
      if (choice == BLOCK_SWAP) continue;
      choice = BLOCK_CHECKPOINT;
      --checkpointed;
    }
    for (std::int64_t k = 0; k < stages; ++k) {
      out_.blocks.insert(out_.blocks.end(), stage.begin(), stage.end());
    }
    return Unit{};
  }

  // Whether no group of the named dimension spans two nodes.
  bool InsideNode(std::string_view dimension) const {
    std::int64_t span = 1;  // Ranks from a group's first to past its last.
    const auto names = SplitRankOrder(out_.rank_order);
    for (const std::string_view name : *names) {
      span *= name == "tp" ? out_.t : name == "cp" ? out_.c : name == "dp" ? out_.d : out_.p;
      if (name == dimension) break;
    }
    const std::int64_t gpus_per_node = cluster_.node().gpus();
    return out_.gpus <= gpus_per_node || gpus_per_node % span == 0;
  }

  Status KuaishouLimits() {
    if (!rules_.kuaishou) return Unit{};
    if (out_.p < 3 && (out_.v > 1 || out_.offload_ratio > 0)) {
      return Impossible("kuaishou-pipeline",
                        StrCat("p = ", out_.p, ": the paper interleaves and offloads with p >= 3"));
    }
    if (out_.t > 1 && !InsideNode("tp")) {
      return Impossible("kuaishou-tensor-in-node",
                        StrCat("tensor-parallel groups of t = ", out_.t, " span nodes of ",
                               cluster_.node().gpus(), " GPUs"));
    }
    if (out_.c > 1 && KvHeads() == model_.attention_heads() && !InsideNode("cp")) {
      return Impossible("kuaishou-context-in-node",
                        StrCat("context-parallel groups of c = ", out_.c, " (t = ", out_.t,
                               ") span nodes of ", cluster_.node().gpus(), " GPUs, and model '",
                               model_.name(), "' has no grouped queries"));
    }
    if (out_.recompute != RECOMPUTE_NONE && out_.recompute != RECOMPUTE_BALANCED &&
        out_.recompute != RECOMPUTE_FULL) {
      return Impossible("kuaishou-recompute",
                        StrCat("recompute is ", Recompute_Name(out_.recompute),
                               ", the paper's choices are none, balanced and full"));
    }
    return Unit{};
  }

  void DropWhatChangesNothing() {
    const auto warn = [this](std::string sentence) {
      out_.warnings.push_back(std::move(sentence));
    };
    if (out_.p == 1 && out_.offload_ratio > 0) {
      out_.offload_ratio = 0;
      warn(
          "offload_ratio changes nothing with pipeline_parallel 1: each backward follows its "
          "forward, so no activation block waits");
    } else if (out_.offload_ratio > 0 && out_.v * out_.p + out_.p <= 5) {
      // Equation 7: 4 offload slots against the v p + p - 1 blocks that live without offload.
      warn(StrCat("offload_ratio saves no GPU memory with p = ", out_.p, " and v = ", out_.v,
                  ": its four slots take as much as the at most ", out_.v * out_.p + out_.p - 1,
                  " activation blocks that live without it"));
    }
    if (out_.t == 1 && out_.sequence_parallel) {
      out_.sequence_parallel = false;
      warn("sequence_parallel changes nothing with tensor_parallel 1");
    }
    if (out_.t == 1 && out_.tp_overlap != TP_OVERLAP_NONE) {
      out_.tp_overlap = TP_OVERLAP_NONE;
      warn("tensor_parallel_overlap changes nothing with tensor_parallel 1");
    }
    if (out_.d * out_.c == 1 && out_.dp_overlap) {
      out_.dp_overlap = false;
      warn("data_parallel_overlap changes nothing with one data-parallel rank");
    }
    if (out_.chunks.enabled) {
      out_.dp_overlap = true;  // Each chunk's gradients are reduced once they are there.
      if (plan_.has_zero_stage()) {
        warn(
            "zero_stage changes nothing with chunks: persistent ones shard their optimizer "
            "states, the others everything");
      }
    } else if (plan_.has_host_optimizer_overlap()) {
      warn("host_optimizer_overlap changes nothing without chunks: no optimizer runs on the host");
    }
    if (out_.recompute == RECOMPUTE_FULL &&
        std::ranges::find(out_.blocks, BLOCK_CHECKPOINT) != out_.blocks.end()) {
      warn("checkpointed blocks change nothing with RECOMPUTE_FULL, which checkpoints every block");
    }
    if (out_.d * out_.c == 1 && !out_.chunks.enabled && plan_.has_zero_stage() &&
        out_.zero_stage > 0) {
      warn(StrCat("zero_stage ", out_.zero_stage, " changes nothing with one data-parallel rank"));
    }
    if (out_.recompute == RECOMPUTE_SELECTIVE && out_.attention == ATTENTION_FLASH) {
      out_.recompute = RECOMPUTE_NONE;
      warn("RECOMPUTE_SELECTIVE changes nothing with flash attention, which stores no scores");
    }
  }

  const Model& model_;
  const Cluster& cluster_;
  const Plan& plan_;
  const PlanRules& rules_;
  ResolvedPlan out_;
};

}  // namespace

Result<ResolvedPlan> ResolvePlan(const Model& model, const Cluster& cluster, const Plan& plan,
                                 std::int64_t gpus, const PlanRules& rules) {
  return Resolver(model, cluster, plan, gpus, rules).Run();
}

}  // namespace twinstep
