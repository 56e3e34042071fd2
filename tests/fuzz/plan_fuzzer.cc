// Any bytes as model, cluster and plan, separated by lines of three dashes: where they are valid,
// the plan resolves or breaks a rule, and the closed forms stay finite.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/validate_cluster.h"
#include "model_zoo/model.pb.h"
#include "model_zoo/validate_model.h"
#include "sim/estimate/kuaishou_memory.h"
#include "sim/estimate/kuaishou_time.h"
#include "sim/plan/resolved_plan.h"
#include "sim/textproto/text_file.h"

namespace twinstep {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

std::string_view NextPart(std::string_view* text) {
  constexpr std::string_view kSeparator = "\n---\n";
  const std::size_t end = text->find(kSeparator);
  const std::string_view part = text->substr(0, end);
  *text = end == std::string_view::npos ? "" : text->substr(end + kSeparator.size());
  return part;
}

void Resolve(std::string_view text) {
  const auto model = ParseText<Model>(NextPart(&text), "model");
  const auto cluster = ParseText<Cluster>(NextPart(&text), "cluster");
  const auto plan = ParseText<Plan>(NextPart(&text), "plan");
  if (!model.ok() || !cluster.ok() || !plan.ok()) return;
  const bool valid =
      ValidateModel(model.value().message).ok() && ValidateCluster(cluster.value().message).ok();
  const std::int64_t gpus = cluster.value().message.nodes() * (valid ? 8 : 1);
  const auto resolved = ResolvePlan(model.value().message, cluster.value().message,
                                    plan.value().message, gpus, {.kuaishou = text.empty()});
  if (!resolved.ok()) {
    Require(!resolved.error().rule.empty() && !resolved.error().message.empty());
    return;
  }
  if (!valid) return;
  const ResolvedPlan& r = resolved.value();
  Require(r.t * r.c * r.p * r.d == gpus);
  Require(r.p * r.v * r.l == model.value().message.layers());
  const auto memory = EstimateMemory(model.value().message, r, 0);
  if (memory.ok()) Require(std::isfinite(memory.value().gpu_bytes()));
  const KuaishouPrimitives primitives = {.layer_forward_s = 1e-3,
                                         .layer_backward_s = 2e-3,
                                         .d2h_bytes_per_s = 5e10,
                                         .h2d_bytes_per_s = 5e10,
                                         .optimizer_bytes_per_s = 1e11};
  const auto time = EstimateTime(model.value().message, r, primitives);
  if (time.ok()) Require(time.value().total_s() > 0);
}

}  // namespace
}  // namespace twinstep

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  twinstep::Resolve({reinterpret_cast<const char*>(data), size});
  return 0;
}
