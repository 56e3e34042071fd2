// What a profile says of pairs of operators that one kernel computes, in the terms of graphs.
//
//   const FusedPairs pairs = FindFusedPairs(graph, PairRuleOf(profile));
//   for (const OperatorSample& sample : profile.operators()) Add(sample, FusionOf(sample));
#pragma once

#include "hw_specs/profile.pb.h"
#include "sim/graph/fused_pairs.h"

namespace twinstep {

// None where the profile does not tell parts of pairs apart.
PairRule PairRuleOf(const Profile& profile);
Fusion FusionOf(const OperatorSample& sample);

// Of each operator and size the entry of the part that takes least, which then stands for all: for
// bounds, which look at a few layers of one plan and must hold for others, where other operators
// are fused. Of GPUs that differ it is the fastest one's.
Profile CheapestParts(const Profile& profile);

// The other way.
Profile::FusedPairs InProfile(PairRule rule);
OperatorSample::Fusion InProfile(Fusion fusion);

}  // namespace twinstep
