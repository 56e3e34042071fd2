#include "exec/profile/phase_times.h"

#include <algorithm>
#include <cstddef>

#include "sim/format.h"
#include "sim/report/text_table.h"

namespace twinstep {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

void PhaseTimes::Begin(const std::string& name) {
  End();
  const auto found = std::ranges::find(phases_, name, &PhaseTime::name);
  at_ = static_cast<std::size_t>(found - phases_.begin());
  if (found == phases_.end()) phases_.push_back({.name = name});
  begin_ = Clock::now();
}

void PhaseTimes::End() {
  if (at_ < phases_.size()) phases_[at_].seconds += Since(begin_);
  at_ = phases_.size();
}

PhaseTimes::Part::Part(PhaseTimes* times, double PhaseTime::*part)
    : times_(times), part_(part), begin_(Clock::now()) {}

PhaseTimes::Part::~Part() {
  if (times_ == nullptr || times_->at_ == times_->phases_.size()) return;
  PhaseTime& phase = times_->phases_[times_->at_];
  phase.*part_ += Since(begin_);
  if (part_ == &PhaseTime::starting_s) ++phase.runs;
}

std::string PhaseTable(const std::vector<PhaseTime>& phases) {
  std::vector<PhaseTime> rows = phases;
  PhaseTime all{.name = "all"};
  for (const PhaseTime& phase : phases) {
    all.runs += phase.runs;
    for (const auto member : {&PhaseTime::seconds, &PhaseTime::starting_s, &PhaseTime::warming_up_s,
                              &PhaseTime::measuring_s}) {
      all.*member += phase.*member;
    }
  }
  rows.push_back(all);
  TextTable table({"time in s", "runs", "all", "starting", "warming up", "measuring"});
  const auto cell = [](double seconds, double of_all) {
    return of_all > 0 ? Fixed(seconds, 1) : std::string();
  };
  for (const PhaseTime& row : rows) {
    table.AddRow({row.name, all.runs > 0 ? Count(row.runs) : "", Fixed(row.seconds, 1),
                  cell(row.starting_s, all.starting_s), cell(row.warming_up_s, all.warming_up_s),
                  cell(row.measuring_s, all.measuring_s)});
  }
  return table.ToString();
}

}  // namespace twinstep
