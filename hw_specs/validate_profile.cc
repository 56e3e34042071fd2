#include "hw_specs/validate_profile.h"

#include <string>

#include "hw_specs/interference_factors.h"
#include "sim/str_cat.h"
#include "sim/textproto/field_rules.h"

namespace twinstep {
namespace {

constexpr std::int64_t kMaxDimension = std::int64_t{1} << 40;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMaxGroup = std::int64_t{1} << 20;
constexpr std::int64_t kMaxHostGpus = 1024;
constexpr std::uint32_t kMaxShards = 65535;  // OpShape::count.
constexpr std::size_t kOperatorDims = 6;     // OpShape::dims.
constexpr double kShortest_s = 1e-12, kLongest_s = 1e5;

bool IsTime(double seconds) { return seconds >= kShortest_s && seconds <= kLongest_s; }
bool IsTimeOrNone(double seconds) { return seconds == 0 || IsTime(seconds); }
bool IsSlowness(double slowness) { return slowness >= 0.1 && slowness <= 10; }
bool IsHostGpus(std::int64_t gpus) { return gpus >= 0 && gpus <= kMaxHostGpus; }
bool IsSize(std::int64_t size, std::int64_t most) { return size >= 1 && size <= most; }

// Notes problems of one entry of a list by the names of its fields.
class EntryErrors {
 public:
  EntryErrors(const char* list, int index, FieldErrors* errors)
      : prefix_(StrCat(list, "[", index, "].")), errors_(errors) {}

  void Require(bool good, const char* field, const char* problem) {
    if (!good) errors_->Add(prefix_ + field, problem);
  }

 private:
  std::string prefix_;
  FieldErrors* errors_;
};

constexpr const char* kNoTime = "is no time between 1e-12 and 1e5 seconds";
constexpr const char* kMoreThanMost = "is more than 2^50";
constexpr const char* kNoSize = "is not between 1 and 2^50";

void CheckOperators(const Profile& profile, FieldErrors* errors) {
  for (int i = 0; i < profile.operators_size(); ++i) {
    const OperatorSample& sample = profile.operators(i);
    EntryErrors entry("operators", i, errors);
    entry.Require(!sample.op().empty(), "op", "is missing");
    entry.Require(IsTime(sample.median_s()), "median_s", kNoTime);
    entry.Require(static_cast<std::size_t>(sample.dims_size()) <= kOperatorDims, "dims",
                  "has more than 6 numbers");
    for (const std::int64_t dim : sample.dims()) {
      entry.Require(dim <= kMaxDimension, "dims", "has a number above 2^40");
    }
    entry.Require(sample.workspace_bytes() <= kMaxBytes, "workspace_bytes", kMoreThanMost);
    entry.Require(sample.count() <= kMaxShards, "count", "is more than 65535");
    entry.Require(IsTimeOrNone(sample.busy_median_s()), "busy_median_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.beside_d2h_s()), "beside_d2h_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.beside_copies_s()), "beside_copies_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.beside_h2d_s()), "beside_h2d_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.beside_collective_s()), "beside_collective_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.rested_s()), "rested_s", kNoTime);
    entry.Require(OperatorSample::Fusion_IsValid(sample.fusion()), "fusion", "has no such value");
    entry.Require(
        sample.fusion() == OperatorSample::ALONE || profile.fused_pairs() != Profile::UNTOLD,
        "fusion", "is of a profile without fused_pairs");
    entry.Require(IsTimeOrNone(sample.rested_beside_h2d_s()), "rested_beside_h2d_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.rested_beside_d2h_s()), "rested_beside_d2h_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.rested_beside_copies_s()), "rested_beside_copies_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.lets_in_s()), "lets_in_s", kNoTime);
    entry.Require(sample.gpu_slowness().empty() ||
                      sample.gpu_slowness_size() == profile.measured_on().node().gpus(),
                  "gpu_slowness", "has not a number for each GPU of measured_on.node");
    for (const double slowness : sample.gpu_slowness()) {
      entry.Require(IsSlowness(slowness), "gpu_slowness", "has a number not between 0.1 and 10");
    }
  }
}

void CheckOperatorMemory(const Profile& profile, FieldErrors* errors) {
  for (int i = 0; i < profile.operator_memory_size(); ++i) {
    const OperatorMemorySample& sample = profile.operator_memory(i);
    EntryErrors entry("operator_memory", i, errors);
    entry.Require(!sample.op().empty(), "op", "is missing");
    entry.Require(!sample.phase().empty(), "phase", "is missing");
    entry.Require(sample.allocated_before_bytes() <= kMaxBytes, "allocated_before_bytes",
                  kMoreThanMost);
    entry.Require(sample.allocated_after_bytes() <= kMaxBytes, "allocated_after_bytes",
                  kMoreThanMost);
    entry.Require(sample.intra_peak_bytes() <= kMaxBytes, "intra_peak_bytes", kMoreThanMost);
    entry.Require(sample.inter_peak_bytes() <= kMaxBytes, "inter_peak_bytes", kMoreThanMost);
    entry.Require(sample.workspace_bytes() <= sample.intra_peak_bytes(), "workspace_bytes",
                  "is more than intra_peak_bytes");
  }
}

void CheckMovements(const Profile& profile, FieldErrors* errors) {
  for (int i = 0; i < profile.copies_size(); ++i) {
    const CopySample& sample = profile.copies(i);
    EntryErrors entry("copies", i, errors);
    entry.Require(sample.direction() != CopySample::DIRECTION_UNSPECIFIED, "direction",
                  "is missing");
    entry.Require(IsSize(sample.bytes(), kMaxBytes), "bytes", kNoSize);
    entry.Require(IsTime(sample.alone_s()), "alone_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.both_ways_s()), "both_ways_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.busy_s()), "busy_s", kNoTime);
  }
  for (int i = 0; i < profile.host_copies_size(); ++i) {
    const HostCopySample& sample = profile.host_copies(i);
    EntryErrors entry("host_copies", i, errors);
    entry.Require(IsHostGpus(sample.up()), "up", "is not in [0, 1024]");
    entry.Require(IsHostGpus(sample.down()), "down", "is not in [0, 1024]");
    entry.Require(sample.up() > 0 || sample.down() > 0, "up", "is 0, and so is down");
    entry.Require(IsSize(sample.bytes(), kMaxBytes), "bytes", kNoSize);
    entry.Require(sample.up() > 0 ? IsTime(sample.h2d_s()) : sample.h2d_s() == 0, "h2d_s",
                  sample.up() > 0 ? kNoTime : "is given where none copy so");
    entry.Require(sample.down() > 0 ? IsTime(sample.d2h_s()) : sample.d2h_s() == 0, "d2h_s",
                  sample.down() > 0 ? kNoTime : "is given where none copy so");
  }
  for (int i = 0; i < profile.collectives_size(); ++i) {
    const CollectiveSample& sample = profile.collectives(i);
    EntryErrors entry("collectives", i, errors);
    entry.Require(!sample.op().empty(), "op", "is missing");
    entry.Require(IsSize(sample.group_size(), kMaxGroup), "group_size",
                  "is not between 1 and 2^20");
    entry.Require(sample.ranks_per_node() <= kMaxGroup, "ranks_per_node", "is more than 2^20");
    entry.Require(IsSize(sample.bytes(), kMaxBytes), "bytes", kNoSize);
    entry.Require(IsTime(sample.median_s()), "median_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.busy_median_s()), "busy_median_s", kNoTime);
    entry.Require(IsTimeOrNone(sample.beside_compute_s()), "beside_compute_s", kNoTime);
  }
}

}  // namespace

Status ValidateProfile(const Profile& profile, const TextSource& source) {
  FieldErrors errors(profile, source);
  errors.CheckEveryNumber();
  CheckOperators(profile, &errors);
  CheckOperatorMemory(profile, &errors);
  CheckMovements(profile, &errors);
  if (!Profile::FusedPairs_IsValid(profile.fused_pairs())) {
    errors.Add("fused_pairs", "has no such value");
  }
  errors.CheckZeroOrRange("dispatch_s", 1e-12, 1);
  errors.CheckZeroOrRange("lane_handoff_s", 1e-12, 1);
  errors.CheckZeroOrRange("meeting_s", 1e-12, 1);
  errors.CheckZeroOrRange("busy_threads", 1, 1e6);
  errors.CheckZeroOrRange("gpu_adam_params_per_s", 1e3, 1e17);
  errors.CheckZeroOrRange("host_adam_params_per_s", 1e3, 1e17);
  errors.CheckZeroOrRange("host_adam_params_per_s_beside_copies", 1e3, 1e17);
  errors.CheckZeroOrRange("host_adam_params_per_s_beside_h2d", 1e3, 1e17);
  errors.CheckZeroOrRange("host_adam_params_per_s_beside_d2h", 1e3, 1e17);
  errors.CheckZeroOrRange("runtime_overhead_bytes", 1, 0x1p46);
  errors.CheckZeroOrRange("clocks.boost_s", 1e-6, 100);
  errors.CheckZeroOrRange("clocks.boost_per_rest_s", 1e-6, 1e6);
  for (const auto& [name, factor] : InterferenceFactors(profile.interference())) {
    errors.CheckZeroOrRange(StrCat("interference.", name), 1, 100);
  }
  return errors.status();
}

}  // namespace twinstep
