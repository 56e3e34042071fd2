// How many threads run at once.
//
//   options.threads = HardwareThreads();
#pragma once

namespace twinstep {

// Cores that this process may run on (all of the machine, unless taskset, a container or a launcher
// has left it some), at least 1. std::thread::hardware_concurrency counts all: as many threads as
// that on fewer cores wait for each other.
int HardwareThreads();

}  // namespace twinstep
