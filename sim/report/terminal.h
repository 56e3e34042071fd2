// What is known about the terminal, if there is one.
#pragma once

#include <cstddef>

namespace twinstep {

bool IsTerminal(int file_descriptor);

// Columns of the terminal on a file descriptor; `fallback` where there is none.
std::size_t TerminalWidth(int file_descriptor, std::size_t fallback);

}  // namespace twinstep
