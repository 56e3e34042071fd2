#include "exec/profile/build_profile.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "exec/profile/gpu_slowness.h"
#include "exec/profile/operation_fields.h"
#include "exec/profile/statistics.h"
#include "hw_specs/profile_keys.h"
#include "sim/cost/profile_pairs.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Clocks tick: what took no time at all took less than a tick.
constexpr double kShortest_s = 1e-9;

double Median(const Summary& summary) {
  return RoundMeasured(std::max(summary.median, kShortest_s));
}

// 0 where nothing was measured.
double MedianOf(const std::vector<double>& times_s) {
  return times_s.empty() ? 0 : Median(Summarize(times_s));
}

void AddOperator(const Primitive& primitive, const Summary& alone, const PrimitiveTimes& times,
                 Profile* profile) {
  const OpShape& shape = primitive.shape;
  OperatorSample* sample = profile->add_operators();
  SetOperation(shape, sample);
  if (shape.count > 1) sample->set_count(shape.count);
  sample->set_on_host(primitive.on_host);
  sample->set_fusion(InProfile(primitive.fusion));
  sample->set_median_s(Median(alone));
  sample->set_relative_spread(RoundMeasured(alone.relative_spread));
  sample->set_samples(static_cast<std::int64_t>(alone.kept));
  sample->set_busy_median_s(MedianOf(times.busy_s));
  sample->set_beside_d2h_s(MedianOf(times.beside_d2h_s));
  sample->set_beside_copies_s(MedianOf(times.beside_copies_s));
  sample->set_beside_h2d_s(MedianOf(times.beside_h2d_s));
  sample->set_beside_collective_s(MedianOf(times.beside_collective_s));
  sample->set_rested_s(MedianOf(times.rested_s));
  sample->set_rested_beside_h2d_s(MedianOf(times.rested_beside_h2d_s));
  sample->set_rested_beside_d2h_s(MedianOf(times.rested_beside_d2h_s));
  sample->set_rested_beside_copies_s(MedianOf(times.rested_beside_copies_s));
  sample->set_lets_in_s(MedianOf(times.lets_in_s));
  for (const double slowness : MeanSlowness(times.gpu_slowness)) {
    sample->add_gpu_slowness(RoundMeasured(slowness));
  }
}

void AddCopy(const Primitive& primitive, const Summary& alone, const PrimitiveTimes& times,
             Profile* profile) {
  CopySample* sample = profile->add_copies();
  sample->set_direction(primitive.shape.op == OpCode::kCopyH2D ? CopySample::H2D : CopySample::D2H);
  sample->set_bytes(primitive.shape.dims[0]);
  sample->set_alone_s(Median(alone));
  sample->set_relative_spread(RoundMeasured(alone.relative_spread));
  sample->set_samples(static_cast<std::int64_t>(alone.kept));
  sample->set_busy_s(MedianOf(times.busy_s));
  sample->set_both_ways_s(MedianOf(times.both_ways_s));
}

void AddGroup(const Primitive& primitive, const Summary& alone, const PrimitiveTimes& times,
              Profile* profile) {
  CollectiveSample* sample = profile->add_collectives();
  sample->set_op(Name(primitive.shape.op));
  sample->set_group_size(primitive.group_size);
  sample->set_ranks_per_node(primitive.group_size);  // One machine.
  sample->set_bytes(primitive.shape.dims[0]);
  if (Sums(primitive.shape.op)) sample->set_dtype(Name(primitive.shape.dtype));
  sample->set_flags(primitive.shape.flags);
  sample->set_median_s(Median(alone));
  sample->set_relative_spread(RoundMeasured(alone.relative_spread));
  sample->set_samples(static_cast<std::int64_t>(alone.kept));
  sample->set_busy_median_s(MedianOf(times.busy_s));
  sample->set_beside_compute_s(MedianOf(times.beside_compute_s));
  sample->set_takes_turns(times.takes_turns);
  sample->set_in_place(primitive.in_place);
}

template <typename Entries>
void AddKeys(const Entries& entries, std::set<std::string>* keys) {
  for (const auto& entry : entries) keys->insert(KeyOf(entry));
}

std::set<std::string> KeysOf(const Profile& profile) {
  std::set<std::string> keys;
  AddKeys(profile.operators(), &keys);
  AddKeys(profile.copies(), &keys);
  AddKeys(profile.collectives(), &keys);
  return keys;
}

// Entries of `old` that `more` has not, behind its own.
template <typename Entries>
void KeepOthers(const Entries& old, const std::set<std::string>& keys, Entries* more) {
  for (const auto& entry : old) {
    if (!keys.contains(KeyOf(entry))) *more->Add() = entry;
  }
}

void AddEntry(const Primitive& primitive, const PrimitiveTimes& times, Profile* profile) {
  const Summary alone = Summarize(times.alone_s);
  if (primitive.group_size > 0) {
    AddGroup(primitive, alone, times, profile);
  } else if (IsCopy(primitive.shape.op)) {
    AddCopy(primitive, alone, times, profile);
  } else {
    AddOperator(primitive, alone, times, profile);
  }
}

Status CheckSame(const std::string& what, const std::string& was, const std::string& is) {
  if (was == is) return Unit{};
  return Error{.message = StrCat("the profile to append to was measured with ", what, " '", was,
                                 "', and this is '", is, "'")};
}

}  // namespace

Profile BuildEntries(const PrimitiveSamples& samples) {
  Profile profile;
  for (const auto& [primitive, times] : samples.times) {
    if (!times.alone_s.empty()) AddEntry(primitive, times, &profile);
  }
  profile.set_busy_threads(samples.busy_threads);
  if (!samples.gap_s.empty()) profile.set_dispatch_s(Median(Summarize(samples.gap_s)));
  return profile;
}

Status CheckSameProvenance(const Profile& earlier, const Profile& now) {
  for (const Status& same :
       {CheckSame("machine", earlier.machine(), now.machine()),
        CheckSame("versions", Joined(earlier.versions()), Joined(now.versions())),
        CheckSame("options", Joined(earlier.options()), Joined(now.options())),
        CheckSame("fused_pairs", Profile::FusedPairs_Name(earlier.fused_pairs()),
                  Profile::FusedPairs_Name(now.fused_pairs()))}) {
    if (!same.ok()) return same;
  }
  return Unit{};
}

Status MergeProfile(const Profile& more, Profile* profile) {
  if (const Status same = CheckSameProvenance(*profile, more); !same.ok()) return same;
  Profile merged = more;
  const std::set<std::string> keys = KeysOf(more);
  KeepOthers(profile->operators(), keys, merged.mutable_operators());
  KeepOthers(profile->copies(), keys, merged.mutable_copies());
  KeepOthers(profile->collectives(), keys, merged.mutable_collectives());
  // Of a machine with other GPUs in use.
  for (OperatorSample& sample : *merged.mutable_operators()) {
    if (sample.gpu_slowness_size() == merged.measured_on().node().gpus()) continue;
    sample.clear_gpu_slowness();
  }
  merged.clear_runs();
  std::set<std::string> seen;
  for (const Profile* of : {static_cast<const Profile*>(profile), &more}) {
    for (const std::string& run : of->runs()) {
      if (seen.insert(run).second) merged.add_runs(run);
    }
  }
  *profile = std::move(merged);
  return Unit{};
}

Coverage CoverageOf(const Profile& profile, const TaskGraph& graph) {
  const std::set<std::string> keys = KeysOf(profile);
  Coverage coverage;
  const FusedPairs pairs = FindFusedPairs(graph, PairRuleOf(profile));
  for (const Primitive& primitive : PrimitivesOf(graph, pairs)) {
    Profile wanted;
    AddEntry(primitive, {}, &wanted);
    const std::string key = *KeysOf(wanted).begin();
    if (keys.contains(key)) {
      ++coverage.measured;
    } else {
      coverage.missing.push_back(key);
    }
  }
  return coverage;
}

Spread SpreadOf(const Profile& profile) {
  Spread spread;
  std::vector<double> all;
  const auto add = [&](const auto& entries) {
    for (const auto& entry : entries) {
      all.push_back(entry.relative_spread());
      if (!spread.at.empty() && entry.relative_spread() <= spread.largest) continue;
      spread.largest = entry.relative_spread();
      spread.at = KeyOf(entry);
    }
  };
  add(profile.operators());
  add(profile.copies());
  add(profile.collectives());
  if (all.empty()) return spread;
  std::sort(all.begin(), all.end());
  spread.median = Quantile(all, 0.5);
  return spread;
}

std::string ProfileText(const Profile& profile) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(profile, &text);
  return "# Measured by `twinstep profile`; the schema is hw_specs/profile.proto. Times are of "
         "one\n"
         "# thread: alone, and while busy_threads threads compute.\n" +
         text;
}

}  // namespace twinstep
