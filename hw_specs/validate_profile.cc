#include "hw_specs/validate_profile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "hw_specs/interference_factors.h"
#include "hw_specs/profile_keys.h"
#include "hw_specs/validate_cluster.h"
#include "sim/graph/find_op.h"
#include "sim/graph/ids.h"
#include "sim/graph/op.h"
#include "sim/str_cat.h"
#include "sim/textproto/closest_name.h"
#include "sim/textproto/field_rules.h"

namespace twinstep {
namespace {

constexpr std::int64_t kMaxDimension = std::int64_t{1} << 40;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMaxGroup = std::int64_t{1} << 20;
constexpr std::int64_t kMaxHostGpus = 1024;
constexpr std::uint32_t kMaxShards = 65535;  // OpShape::count.
constexpr std::size_t kOperatorDims = 6;     // OpShape::dims.
constexpr std::size_t kLongestShown = 60;
constexpr double kShortest_s = 1e-12, kLongest_s = 1e5;

// What engines take of rates (sim/engine/fixed_point.h); Adam moves 28 bytes a parameter.
constexpr double kMostBytesPerSecond = 0x1p50, kMostAdamParamsPerSecond = 1e13;
// Of what is measured under some condition, over alone. Measured were 0.09 to 94, and engines take
// a millionth to a million, times what GPUs differ.
constexpr double kMostSlowdown = 1e5;
// Measured times are written with five digits.
constexpr double kLargestMeanError = 1e-3;

bool IsTime(double seconds) { return seconds >= kShortest_s && seconds <= kLongest_s; }
bool IsSlowness(double slowness) { return slowness >= 0.1 && slowness <= 10; }
bool IsHostGpus(std::int64_t gpus) { return gpus >= 0 && gpus <= kMaxHostGpus; }
bool IsSize(std::int64_t size, std::int64_t most) { return size >= 1 && size <= most; }

constexpr const char* kNoTime = "is no time between 1e-12 and 1e5 seconds";
constexpr const char* kMoreThanMost = "is more than 2^50";
constexpr const char* kNoSize = "is not between 1 and 2^50";

// Notes problems of one entry of a list by the names of its fields.
class EntryErrors {
 public:
  EntryErrors(const char* list, int index, FieldErrors* errors)
      : prefix_(StrCat(list, "[", index, "].")), errors_(errors) {}

  void Require(bool good, const char* field, std::string_view problem) {
    if (!good) errors_->Add(prefix_ + field, problem);
  }

  void CheckOp(const std::string& op) {
    if (FindOp(op)) return;
    std::vector<std::string> names;
    for (int i = 0; i < kOpCodeCount; ++i) names.emplace_back(Name(static_cast<OpCode>(i)));
    AddNoName("op", op, "operation", names);
  }

  void CheckDtype(const std::string& dtype) {
    if (!FindDtype(dtype)) AddNoName("dtype", dtype, "type of numbers", {});
  }

  void CheckPhase(const std::string& phase) {
    std::vector<std::string> names;
    for (int i = 0; i < kPhaseCount; ++i) names.emplace_back(Name(static_cast<Phase>(i)));
    if (!std::ranges::count(names, phase)) AddNoName("phase", phase, "phase", names);
  }

  // A time under some condition, 0 where it was not measured, over that without.
  void CheckBeside(double seconds, double alone_s, const char* field) {
    if (!IsTime(seconds)) return Require(seconds == 0, field, kNoTime);
    Require(!IsTime(alone_s) ||
                (seconds <= kMostSlowdown * alone_s && alone_s <= kMostSlowdown * seconds),
            field, "is more than 1e5 times as long or as short as without others");
  }

  void CheckRate(std::int64_t bytes, double seconds, const char* field) {
    Require(!IsTime(seconds) || static_cast<double>(bytes) <= kMostBytesPerSecond * seconds, field,
            "is less than its bytes take at 2^50 a second");
  }

 private:
  void AddNoName(const char* field, const std::string& name, const char* kind,
                 const std::vector<std::string>& names) {
    if (name.empty()) return Require(false, field, "is missing");
    Require(false, field,
            StrCat("'", name.substr(0, kLongestShown), "' is no ", kind, DidYouMean(name, names)));
  }

  std::string prefix_;
  FieldErrors* errors_;
};

void CheckSlowness(const OperatorSample& sample, EntryErrors* entry) {
  const auto& slowness = sample.gpu_slowness();
  if (slowness.empty()) return;
  if (!std::ranges::all_of(slowness, IsSlowness)) {
    return entry->Require(false, "gpu_slowness", "has a number not between 0.1 and 10");
  }
  const double mean = std::accumulate(slowness.begin(), slowness.end(), 0.0) / slowness.size();
  entry->Require(std::abs(mean - 1) <= kLargestMeanError, "gpu_slowness",
                 StrCat("is ", mean, " on average, and not 1: each is over the mean of all"));
}

void CheckOperators(const Profile& profile, FieldErrors* errors) {
  for (int i = 0; i < profile.operators_size(); ++i) {
    const OperatorSample& sample = profile.operators(i);
    EntryErrors entry("operators", i, errors);
    entry.CheckOp(sample.op());
    entry.CheckDtype(sample.dtype());
    entry.Require(IsTime(sample.median_s()), "median_s", kNoTime);
    entry.Require(static_cast<std::size_t>(sample.dims_size()) <= kOperatorDims, "dims",
                  "has more than 6 numbers");
    for (const std::int64_t dim : sample.dims()) {
      entry.Require(dim <= kMaxDimension, "dims", "has a number above 2^40");
    }
    entry.Require(sample.workspace_bytes() <= kMaxBytes, "workspace_bytes", kMoreThanMost);
    entry.Require(sample.count() <= kMaxShards, "count", "is more than 65535");
    entry.CheckBeside(sample.busy_median_s(), sample.median_s(), "busy_median_s");
    entry.CheckBeside(sample.beside_d2h_s(), sample.median_s(), "beside_d2h_s");
    entry.CheckBeside(sample.beside_copies_s(), sample.median_s(), "beside_copies_s");
    entry.CheckBeside(sample.beside_h2d_s(), sample.median_s(), "beside_h2d_s");
    entry.CheckBeside(sample.beside_collective_s(), sample.median_s(), "beside_collective_s");
    entry.CheckBeside(sample.rested_s(), sample.median_s(), "rested_s");
    entry.Require(OperatorSample::Fusion_IsValid(sample.fusion()), "fusion", "has no such value");
    entry.Require(
        sample.fusion() == OperatorSample::ALONE || profile.fused_pairs() != Profile::UNTOLD,
        "fusion", "is of a profile without fused_pairs");
    const double rested_s = sample.rested_s() > 0 ? sample.rested_s() : sample.median_s();
    entry.CheckBeside(sample.rested_beside_h2d_s(), rested_s, "rested_beside_h2d_s");
    entry.CheckBeside(sample.rested_beside_d2h_s(), rested_s, "rested_beside_d2h_s");
    entry.CheckBeside(sample.rested_beside_copies_s(), rested_s, "rested_beside_copies_s");
    entry.CheckBeside(sample.lets_in_s(), sample.median_s(), "lets_in_s");
    entry.Require(sample.gpu_slowness().empty() ||
                      sample.gpu_slowness_size() == profile.measured_on().node().gpus(),
                  "gpu_slowness", "has not a number for each GPU of measured_on.node");
    CheckSlowness(sample, &entry);
  }
}

void CheckOperatorMemory(const Profile& profile, FieldErrors* errors) {
  for (int i = 0; i < profile.operator_memory_size(); ++i) {
    const OperatorMemorySample& sample = profile.operator_memory(i);
    EntryErrors entry("operator_memory", i, errors);
    entry.CheckOp(sample.op());
    entry.CheckPhase(sample.phase());
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
    entry.CheckRate(sample.bytes(), sample.alone_s(), "alone_s");
    entry.CheckBeside(sample.both_ways_s(), sample.alone_s(), "both_ways_s");
    entry.CheckRate(sample.bytes(), sample.both_ways_s(), "both_ways_s");
    entry.CheckBeside(sample.busy_s(), sample.alone_s(), "busy_s");
    entry.CheckRate(sample.bytes(), sample.busy_s(), "busy_s");
  }
  const std::int64_t gpus = profile.measured_on().node().gpus();  // 0: not told.
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
    entry.Require(gpus == 0 || sample.up() <= gpus, "up", "is more than measured_on.node has gpus");
    entry.Require(gpus == 0 || sample.down() <= gpus, "down",
                  "is more than measured_on.node has gpus");
    entry.CheckRate(sample.bytes(), sample.h2d_s(), "h2d_s");
    entry.CheckRate(sample.bytes(), sample.d2h_s(), "d2h_s");
  }
  for (int i = 0; i < profile.collectives_size(); ++i) {
    const CollectiveSample& sample = profile.collectives(i);
    EntryErrors entry("collectives", i, errors);
    entry.CheckOp(sample.op());
    entry.Require(IsSize(sample.group_size(), kMaxGroup), "group_size",
                  "is not between 1 and 2^20");
    entry.Require(sample.ranks_per_node() <= kMaxGroup, "ranks_per_node", "is more than 2^20");
    entry.Require(IsSize(sample.bytes(), kMaxBytes), "bytes", kNoSize);
    entry.Require(IsTime(sample.median_s()), "median_s", kNoTime);
    entry.CheckRate(sample.bytes(), sample.median_s(), "median_s");
    entry.CheckBeside(sample.busy_median_s(), sample.median_s(), "busy_median_s");
    entry.CheckBeside(sample.beside_compute_s(), sample.median_s(), "beside_compute_s");
  }
}

// Which of two counts is not for a reader to guess.
template <typename Entries>
void CheckOnce(const Entries& entries, const char* list, FieldErrors* errors) {
  std::map<std::string, int> first;
  for (int i = 0; i < entries.size(); ++i) {
    const auto& [key, at] = *first.try_emplace(KeyOf(entries[i]), i).first;
    if (at == i) continue;
    errors->Add(StrCat(list, "[", i, "]"),
                StrCat("is of ", key, ", and so is ", list, "[", at, "]"));
  }
}

}  // namespace

Status ValidateProfile(const Profile& profile, const TextSource& source) {
  FieldErrors errors(profile, source);
  errors.CheckEveryNumber();
  CheckOperators(profile, &errors);
  CheckOperatorMemory(profile, &errors);
  CheckMovements(profile, &errors);
  CheckOnce(profile.operators(), "operators", &errors);
  CheckOnce(profile.copies(), "copies", &errors);
  CheckOnce(profile.host_copies(), "host_copies", &errors);
  CheckOnce(profile.collectives(), "collectives", &errors);
  if (!Profile::FusedPairs_IsValid(profile.fused_pairs())) {
    errors.Add("fused_pairs", "has no such value");
  }
  errors.CheckZeroOrRange("dispatch_s", 1e-12, 1);
  errors.CheckZeroOrRange("lane_handoff_s", 1e-12, 1);
  errors.CheckZeroOrRange("meeting_s", 1e-12, 1);
  errors.CheckZeroOrRange("busy_threads", 1, 1e6);
  errors.CheckZeroOrRange("gpu_adam_params_per_s", 1e3, 1e17);
  errors.CheckZeroOrRange("host_adam_params_per_s", 1e3, kMostAdamParamsPerSecond);
  errors.CheckZeroOrRange("host_adam_params_per_s_beside_copies", 1e3, kMostAdamParamsPerSecond);
  errors.CheckZeroOrRange("host_adam_params_per_s_beside_h2d", 1e3, kMostAdamParamsPerSecond);
  errors.CheckZeroOrRange("host_adam_params_per_s_beside_d2h", 1e3, kMostAdamParamsPerSecond);
  errors.CheckZeroOrRange("runtime_overhead_bytes", 1, 0x1p46);
  errors.CheckZeroOrRange("clocks.boost_s", 1e-6, 100);
  errors.CheckZeroOrRange("clocks.boost_per_rest_s", 1e-5, 1e5);
  if (profile.clocks().boost_per_rest_s() > 0 && profile.clocks().boost_s() == 0) {
    errors.Add("clocks.boost_s", "is missing, and boost_per_rest_s is of it");
  }
  for (const auto& [name, factor] : InterferenceFactors(profile.interference())) {
    errors.CheckZeroOrRange(StrCat("interference.", name), 1, 100);
  }
  return errors.status();
}

Status ValidateMeasuredOn(const Profile& profile, const TextSource& source) {
  if (!profile.has_measured_on()) return Unit{};
  TextSource own = {.name = source.name, .tree = nullptr, .base = nullptr};
  if (source.tree != nullptr) {
    const auto* field = Profile::descriptor()->FindFieldByNumber(Profile::kMeasuredOnFieldNumber);
    own.tree = {source.tree, source.tree->GetTreeForNested(field, -1)};
  }
  return ValidateCluster(profile.measured_on(), own);
}

}  // namespace twinstep
