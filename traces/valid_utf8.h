// Names of files and foreign traces as text that a Trace can hold.
#pragma once

#include <string>

namespace twinstep {

// The text with '?' for every byte that is not part of UTF-8.
std::string ValidUtf8(std::string text);

}  // namespace twinstep
