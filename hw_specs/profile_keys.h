// What an entry of a profile is the time of, as text that a person reads: "gemm_forward bf16 4096
// 4096 1024". Entries of equal keys are of the same primitive, of which a profile has one.
//
//   std::set<std::string> keys;
//   for (const CopySample& copy : profile.copies()) keys.insert(KeyOf(copy));
#pragma once

#include <string>

#include "hw_specs/profile.pb.h"

namespace twinstep {

std::string KeyOf(const OperatorSample& sample);
std::string KeyOf(const CopySample& sample);
std::string KeyOf(const CollectiveSample& sample);
// Of whatever size: rates of GPUs that share a host are taken from one.
std::string KeyOf(const HostCopySample& sample);

}  // namespace twinstep
