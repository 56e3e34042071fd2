// Where the time of a measurement goes: by phase, and in it making runs ready, warming up and
// measuring.
//
//   PhaseTimes times;
//   times.Begin("copies");
//   { const PhaseTimes::Part part(&times, &PhaseTime::starting_s); Start(); }
//   times.End();
//   std::cout << PhaseTable(times.phases());
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace twinstep {

struct PhaseTime {
  std::string name;
  int runs = 0;  // That were started: devices, memory, initial values.
  // From its begin to its end; more than its parts.
  double seconds = 0;
  double starting_s = 0, warming_up_s = 0, measuring_s = 0;
};

class PhaseTimes {
 public:
  // Ends the phase at hand. One of a name that was there goes on.
  void Begin(const std::string& name);
  void End();

  // Adds its own lifetime to a part of the phase at hand: starting_s counts as one more run.
  // `times` may be null.
  class Part {
   public:
    Part(PhaseTimes* times, double PhaseTime::*part);
    ~Part();
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    PhaseTimes* const times_;
    double PhaseTime::*const part_;
    const std::chrono::steady_clock::time_point begin_;
  };

  // In the order in which they began.
  const std::vector<PhaseTime>& phases() const { return phases_; }

 private:
  std::vector<PhaseTime> phases_;
  std::size_t at_ = 0;  // Of the phase at hand; none: as many as there are.
  std::chrono::steady_clock::time_point begin_;
};

// A line a phase and one of their sums, in seconds; a column that is 0 throughout is left out.
std::string PhaseTable(const std::vector<PhaseTime>& phases);

}  // namespace twinstep
