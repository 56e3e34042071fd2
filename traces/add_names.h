// The names of an enumeration as a table of a Trace.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <string>

namespace twinstep {

// Those of the first `count` values, in order: AddNames<Phase>(kPhaseCount,
// trace.mutable_phases()).
template <typename Enum>
void AddNames(int count, google::protobuf::RepeatedPtrField<std::string>* names) {
  for (int i = 0; i < count; ++i) names->Add(Name(static_cast<Enum>(i)));
}

}  // namespace twinstep
