#include "sim/options/plan_presets.h"

#include <algorithm>

namespace twinstep {
namespace {

// At least as many as chunks stream: all stay in their buffers.
constexpr std::int64_t kAllBuffers = std::int64_t{1} << 26;

// All four update on the CPU after the backward. Their plans are much alike; what tells them apart
// is how they copy and update: hw_specs/frameworks/, fsdp-2023, deepspeed-2023, colossalai-2023.
Plan HostStates(std::int64_t buffers) {
  Plan plan;
  plan.set_persistent_chunks(0);
  plan.set_chunk_buffers(buffers);
  plan.set_host_optimizer_overlap(false);
  return plan;
}

Plan Checkpointed(Plan plan) {
  plan.set_recompute(RECOMPUTE_FULL);
  return plan;
}

}  // namespace

std::vector<std::string> PresetNames() {
  return {"fsdp-offload", "zero3-offload", "gemini-static", "zero-offload"};
}

std::optional<Plan> PresetPlan(const std::string& name) {
  // One unit computes, the next is gathered, the last one leaves; the root unit, with the tied
  // embeddings, stays.
  if (name == "fsdp-offload") return Checkpointed(HostStates(4));
  // stage3_max_live_parameters 1e9: five blocks of the 0.2 B parameters of GPT-2 10B.
  if (name == "zero3-offload") return Checkpointed(HostStates(5));
  // Static placement with all parameters and states on the host; chunks are Gemini's own idea.
  if (name == "gemini-static") return Checkpointed(HostStates(5));
  // Rajbhandari's ZeRO-2 with the optimizer on the host (Ren et al. 2021): parameters cross once an
  // iteration and stay, gradients leave as they are made, nothing is recomputed.
  if (name == "zero-offload") return HostStates(kAllBuffers);
  return std::nullopt;
}

}  // namespace twinstep
