// What the CPU backend's scheduler costs besides the work.
#pragma once

namespace twinstep {

// From the moment when a task can run until a thread that slept has begun it: median of a
// hundred times, in seconds. Takes a tenth of a second.
double MeasureWakeSeconds();

// The same of a thread that still looks for work.
double MeasureHandoffSeconds();

}  // namespace twinstep
