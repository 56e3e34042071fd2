#include "sim/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace twinstep {

bool IsTerminal(int file_descriptor) { return isatty(file_descriptor) == 1; }

std::size_t TerminalWidth(int file_descriptor, std::size_t fallback) {
  winsize size{};
  if (!IsTerminal(file_descriptor) || ioctl(file_descriptor, TIOCGWINSZ, &size) != 0 ||
      size.ws_col == 0) {
    return fallback;
  }
  return size.ws_col;
}

}  // namespace twinstep
