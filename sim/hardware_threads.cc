#include "sim/hardware_threads.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace twinstep {

int HardwareThreads() {
  // Larger sets, until the kernel's fits.
  for (int most = CPU_SETSIZE; most <= (1 << 20); most *= 2) {
    cpu_set_t* set = CPU_ALLOC(most);
    if (set == nullptr) break;
    const bool known = sched_getaffinity(0, CPU_ALLOC_SIZE(most), set) == 0;
    const int count = known ? CPU_COUNT_S(CPU_ALLOC_SIZE(most), set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace twinstep
