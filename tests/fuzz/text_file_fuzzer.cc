// Any bytes as a model, cluster, plan and profile: a message, or an error that names the file.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "hw_specs/validate_cluster.h"
#include "hw_specs/validate_profile.h"
#include "model_zoo/model.pb.h"
#include "model_zoo/validate_model.h"
#include "sim/plan/plan.pb.h"
#include "sim/textproto/text_file.h"

namespace twinstep {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

template <typename Message, typename Validate>
void Read(std::string_view text, Validate validate) {
  const auto parsed = ParseText<Message>(text, "f");
  if (!parsed.ok()) {
    Require(parsed.error().message.starts_with("f:"));
    return;
  }
  const Status valid = validate(parsed.value().message, parsed.value().source);
  if (!valid.ok()) Require(valid.error().message.starts_with("f"));
}

}  // namespace
}  // namespace twinstep

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinstep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Read<Model>(text, [](const Model& m, const TextSource& s) { return ValidateModel(m, s); });
  Read<Cluster>(text, [](const Cluster& c, const TextSource& s) { return ValidateCluster(c, s); });
  Read<Plan>(text, [](const Plan&, const TextSource&) { return Status(Unit{}); });
  Read<Profile>(text, ValidateProfile);
  return 0;
}
