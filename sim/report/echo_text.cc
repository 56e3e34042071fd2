#include "sim/report/echo_text.h"

#include <algorithm>

#include "sim/estimate/model_size.h"
#include "sim/format.h"
#include "sim/plan/plan_names.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::size_t kLabelWidth = 12;

std::string Lowered(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// Significant digits as a person would write them: 989, 53.4.
std::string Short(double value) { return StrCat(value); }

// 65.28 B, 344.1 M, 90 K.
std::string Parameters(std::int64_t count) {
  const double x = static_cast<double>(count);
  if (x >= 1e9) return Fixed(x / 1e9, x < 1e11 ? 2 : 1) + " B";
  return x >= 1e6 ? Fixed(x / 1e6, 1) + " M" : Fixed(x / 1e3, 0) + " K";
}

std::string RecipeText(const Recipe& recipe) {
  std::string text = recipe.precision() == PRECISION_DEFAULT
                         ? "bf16"
                         : Lowered(Precision_Name(recipe.precision()));
  text += recipe.gradient_precision() == PARAMETER_GRADIENT
              ? " with gradients of the same precision"
              : " with fp32 gradients";
  if (recipe.hidden_dropout() > 0) text += ", dropout " + Short(recipe.hidden_dropout());
  if (recipe.attention_dropout() > 0) {
    text += ", attention dropout " + Short(recipe.attention_dropout());
  }
  text += recipe.clip_norm() > 0 ? ", gradient norm clipped at " + Short(recipe.clip_norm())
                                 : ", no clipping";
  return text;
}

std::string LinksText(const Cluster& cluster) {
  const Node& node = cluster.node();
  if (node.workers().threads() > 0) {
    return StrCat(CountOf(node.workers().threads(), "thread"), " of ",
                  Short(cluster.gpu().memory_bytes_per_s() / 1e9),
                  " GB/s for all ranks, host DRAM ", Short(node.host().dram_bytes_per_s() / 1e9),
                  " GB/s");
  }
  std::string text = StrCat("PCIe ", Short(node.pcie().h2d_bytes_per_s() / 1e9), " up, ",
                            Short(node.pcie().d2h_bytes_per_s() / 1e9), " down");
  if (node.pcie().duplex_bytes_per_s() > 0) {
    text += StrCat(" (", Short(node.pcie().duplex_bytes_per_s() / 1e9), " both)");
  }
  if (node.nvlink().bytes_per_s() > 0) {
    text += StrCat(", NVLink ", Short(node.nvlink().bytes_per_s() / 1e9));
  }
  if (node.nic().count() > 0) {
    text += StrCat(", ", node.nic().count(), " NICs of ", Short(node.nic().bytes_per_s() / 1e9));
  }
  text += StrCat(", host DRAM ", Short(node.host().dram_bytes_per_s() / 1e9), " GB/s");
  return text;
}

}  // namespace

std::string Describe(const Model& model) {
  const std::int64_t kv_heads = model.kv_heads() == 0 ? model.attention_heads() : model.kv_heads();
  std::string text =
      StrCat(Lowered(Family_Name(model.family())), ", ", Parameters(TotalParameters(model)),
             " parameters, ", model.layers(), " layers, hidden ", model.hidden_size(), ", ffn ",
             model.ffn_hidden_size(), ", ", model.attention_heads(), " heads");
  if (kv_heads != model.attention_heads()) text += StrCat(" (", kv_heads, " key-value)");
  text += StrCat(", vocabulary ", model.vocab_size(),
                 model.tied_embeddings() ? ", tied embeddings" : "");
  return text;
}

std::string Describe(const Cluster& cluster) {
  return StrCat(cluster.nodes(), cluster.nodes() == 1 ? " node of " : " nodes of ",
                cluster.node().gpus(), " x ", cluster.gpu().name(), " (",
                Bytes(static_cast<double>(cluster.gpu().memory_bytes())), ", ",
                Short(cluster.gpu().bf16_flops_per_s() / 1e12), " TFLOP/s)");
}

std::string Describe(const ResolvedPlan& plan) {
  std::string text =
      StrCat(CountOf(plan.gpus, "GPU"), " = tensor ", plan.t, " x context ", plan.c, " x pipeline ",
             plan.p, " x data ", plan.d, " (order ", plan.rank_order, "); ", WordFor(plan.schedule),
             ", ", plan.v, plan.v == 1 ? " stage" : " stages", " a device of ", plan.l,
             plan.l == 1 ? " layer, " : " layers, ", plan.m,
             plan.m == 1 ? " micro-batch of " : " micro-batches of ", plan.b,
             plan.b == 1 ? " sequence" : " sequences", "; ");
  text += StrCat("sequence parallelism ", plan.sequence_parallel ? "on" : "off", ", TP overlap ",
                 WordFor(plan.tp_overlap), ", DP overlap ", plan.dp_overlap ? "on" : "off",
                 ", ZeRO ", plan.zero_stage, ", attention ", WordFor(plan.attention),
                 ", recompute ", WordFor(plan.recompute));
  if (plan.recompute == RECOMPUTE_CUSTOM) {
    text += " (stores";
    for (const std::string& tensor : plan.stored_tensors) text += " " + tensor;
    text += ")";
  }
  text += StrCat(", offload ratio ", Fixed(plan.offload_ratio, 3));
  if (plan.chunks.enabled) {
    text += StrCat("; chunks: ", plan.chunks.persistent, " persist, ", plan.chunks.buffers,
                   " buffers, CPU Adam ", plan.chunks.host_optimizer_overlap ? "beside" : "after",
                   " the backward");
  }
  const auto blocks = [&plan](BlockActivations choice) {
    return std::count(plan.blocks.begin(), plan.blocks.end(), choice);
  };
  if (!plan.blocks.empty()) {
    text += StrCat("; blocks: ", blocks(BLOCK_SWAP), " swap, ", blocks(BLOCK_CHECKPOINT),
                   " checkpoint, ", blocks(BLOCK_KEEP), " keep");
  }
  return text;
}

std::string EchoText(const Report& report) {
  std::string text;
  text += Paragraph("model", kLabelWidth, report.model.name() + ": " + Describe(report.model));
  text += Paragraph("recipe", kLabelWidth, RecipeText(report.model.recipe()));
  text += Paragraph("cluster", kLabelWidth,
                    report.cluster.name() + ": " + Describe(report.cluster) + ", " +
                        Bytes(static_cast<double>(report.cluster.node().host().memory_bytes())) +
                        " host memory a node");
  text += Paragraph("links", kLabelWidth, LinksText(report.cluster));
  if (!report.profile.empty()) text += Paragraph("profile", kLabelWidth, report.profile);
  if (!report.framework.empty()) text += Paragraph("framework", kLabelWidth, report.framework);
  if (!report.plan_is_valid) {
    return text + Paragraph("plan", kLabelWidth,
                            StrCat(CountOf(report.requested_gpus, "GPU"),
                                   ", asked for: ", report.requested_plan.ShortDebugString()));
  }
  text += Paragraph("plan", kLabelWidth, Describe(report.plan));
  text += Paragraph("iteration", kLabelWidth,
                    StrCat(CountOf(report.plan.global_batch, "sequence"), " x ",
                           Count(report.plan.sequence_length), " = ",
                           CountOf(report.TokensPerIteration(), "token"),
                           ", from the parameter all-gather to the end of the optimizer"));
  return text;
}

}  // namespace twinstep
