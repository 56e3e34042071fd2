#include "sim/cost/profile_pairs.h"

#include <algorithm>
#include <map>
#include <string>

namespace twinstep {
namespace {

// Equal for entries of one operator and size, whatever their part.
std::string OperatorOf(const OperatorSample& sample) {
  OperatorSample only;
  only.set_op(sample.op());
  only.set_dtype(sample.dtype());
  only.set_flags(sample.flags());
  *only.mutable_dims() = sample.dims();
  only.set_count(sample.count());
  only.set_on_host(sample.on_host());
  return only.SerializeAsString();
}

// As if all GPUs were the fastest one, or like their mean, which what-ifs take. What it takes after
// a rest and beside others stays as it is.
void TakeFastestGpu(OperatorSample* sample) {
  if (sample->gpu_slowness().empty()) return;
  const double least = std::min(1.0, std::ranges::min(sample->gpu_slowness()));
  sample->clear_gpu_slowness();
  sample->set_median_s(least * sample->median_s());
}

}  // namespace

// Equal numbers have equal names.
static_assert(static_cast<int>(Fusion::kAlone) == OperatorSample::ALONE);
static_assert(static_cast<int>(Fusion::kWithNext) == OperatorSample::WITH_NEXT);
static_assert(static_cast<int>(Fusion::kSwiGlu) == OperatorSample::SWIGLU);
static_assert(static_cast<int>(Fusion::kSwiGluWithSilu) == OperatorSample::SWIGLU_WITH_SILU);
static_assert(static_cast<int>(Fusion::kSwiGluBackward) == OperatorSample::SWIGLU_BACKWARD);
static_assert(static_cast<int>(Fusion::kGemmAdd) == OperatorSample::GEMM_ADD);
static_assert(static_cast<int>(Fusion::kWithPrevious) == OperatorSample::WITH_PREVIOUS);
static_assert(kFusionCount == OperatorSample::Fusion_ARRAYSIZE);
static_assert(static_cast<int>(PairRule::kNoPairs) == Profile::UNTOLD);
static_assert(static_cast<int>(PairRule::kSameBits) == Profile::SAME_BITS);
static_assert(static_cast<int>(PairRule::kAll) == Profile::ALL_PAIRS);

// Numbers without a name are ValidateProfile's to refuse.
PairRule PairRuleOf(const Profile& profile) {
  return Profile::FusedPairs_IsValid(profile.fused_pairs())
             ? static_cast<PairRule>(profile.fused_pairs())
             : PairRule::kNoPairs;
}

Fusion FusionOf(const OperatorSample& sample) {
  return OperatorSample::Fusion_IsValid(sample.fusion()) ? static_cast<Fusion>(sample.fusion())
                                                         : Fusion::kAlone;
}

Profile CheapestParts(const Profile& given) {
  Profile profile = given;
  for (OperatorSample& sample : *profile.mutable_operators()) TakeFastestGpu(&sample);
  if (PairRuleOf(profile) == PairRule::kNoPairs) return profile;
  Profile cheapest = profile;
  cheapest.clear_operators();
  cheapest.clear_fused_pairs();
  std::map<std::string, OperatorSample*> of_operator;
  for (const OperatorSample& sample : profile.operators()) {
    OperatorSample*& least = of_operator[OperatorOf(sample)];
    if (least == nullptr) {
      least = cheapest.add_operators();
    } else if (least->median_s() <= sample.median_s()) {
      continue;
    }
    *least = sample;
    least->clear_fusion();
  }
  return cheapest;
}

Profile::FusedPairs InProfile(PairRule rule) { return static_cast<Profile::FusedPairs>(rule); }

OperatorSample::Fusion InProfile(Fusion fusion) {
  return static_cast<OperatorSample::Fusion>(fusion);
}

}  // namespace twinstep
