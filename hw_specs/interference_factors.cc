#include "hw_specs/interference_factors.h"

namespace twinstep {

std::vector<std::pair<std::string, double>> InterferenceFactors(const Interference& interference) {
  std::vector<std::pair<std::string, double>> factors;
  const auto* message = Interference::descriptor();
  for (int i = 0; i < message->field_count(); ++i) {
    const auto* field = message->field(i);
    factors.emplace_back(field->name(),
                         interference.GetReflection()->GetDouble(interference, field));
  }
  return factors;
}

}  // namespace twinstep
