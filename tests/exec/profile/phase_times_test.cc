#include "exec/profile/phase_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::Field;

TEST(PhaseTimes, PhasesGoOnByNameAndCountRuns) {
  PhaseTimes times;
  { const PhaseTimes::Part of_no_phase(&times, &PhaseTime::starting_s); }
  for (int i = 0; i < 2; ++i) {
    times.Begin("copies");
    { const PhaseTimes::Part part(&times, &PhaseTime::starting_s); }
    { const PhaseTimes::Part part(&times, &PhaseTime::measuring_s); }
    times.Begin("rates");
    { const PhaseTimes::Part part(nullptr, &PhaseTime::starting_s); }
  }
  times.End();
  { const PhaseTimes::Part after_all(&times, &PhaseTime::starting_s); }
  EXPECT_THAT(times.phases(),
              ElementsAre(Field(&PhaseTime::name, "copies"), Field(&PhaseTime::name, "rates")));
  const PhaseTime& copies = times.phases()[0];
  EXPECT_EQ(copies.runs, 2);
  EXPECT_EQ(times.phases()[1].runs, 0);
  EXPECT_EQ(copies.warming_up_s, 0);
  EXPECT_GE(copies.seconds, copies.starting_s + copies.measuring_s);
}

TEST(PhaseTimes, TableLeavesOutWhatTookNoTime) {
  std::vector<PhaseTime> phases = {
      {.name = "copies", .runs = 3, .seconds = 4, .starting_s = 1.25, .measuring_s = 2.5},
      {.name = "memory", .seconds = 0.5}};
  EXPECT_EQ(PhaseTable(phases),
            "  time in s  runs  all  starting  measuring\n"
            "  copies        3  4.0       1.2        2.5\n"
            "  memory        0  0.5       0.0        0.0\n"
            "  all           3  4.5       1.2        2.5\n");
  phases[0].warming_up_s = 0.25;
  EXPECT_THAT(PhaseTable(phases), testing::HasSubstr("starting  warming up  measuring"));
}

}  // namespace
}  // namespace twinstep
