// Chunks and blocks of a plan as tables, of the first rank.
#pragma once

#include <string>

#include "sim/report/report.h"

namespace twinstep {

// Empty for plans without chunks and choices of blocks.
std::string ChunkText(const Report& report);

}  // namespace twinstep
