#pragma once

#include <cstddef>

namespace twinstep {

// Operands of one member of a collective or message, where the tensors lie (host or device memory);
// read or write is null where its task has none (SEND, RECV).
struct MemberBuffers {
  const std::byte* read = nullptr;
  std::byte* write = nullptr;
};

}  // namespace twinstep
