// Any bytes as an argument of --set: a changed message, or an error with a sentence.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/plan/plan.pb.h"
#include "sim/textproto/set_field.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinstep;
  const auto argument =
      ParseFieldValues(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!argument.ok()) return 0;
  for (const std::string& value : argument.value().values) {
    Model model;
    Cluster cluster;
    Plan plan;
    Profile profile;
    const Status status = SetFieldOfOne(
        {{"model", &model}, {"cluster", &cluster}, {"plan", &plan}, {"profile", &profile}},
        argument.value().path, value);
    if (!status.ok() && status.error().message.empty()) std::abort();
  }
  return 0;
}
