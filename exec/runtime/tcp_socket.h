// TCP connections that are made, and pass bytes, until a deadline.
//
//   const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
//   Result<Socket> peer = ConnectTo("node0", 29501, deadline);
//   if (!peer.ok()) return peer.error();
//   if (!Send(peer.value().get(), bytes, deadline)) ...
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "sim/result.h"

namespace twinstep {

using Deadline = std::optional<std::chrono::steady_clock::time_point>;  // None: for ever.

// A descriptor that is closed unless it is kept.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.Keep()) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();
  int get() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  int Keep() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

// Whether `events` of poll(2) come before the deadline.
bool Ready(int descriptor, short events, Deadline deadline);

// Whether all bytes passed before the deadline, and before the other end closed.
bool Send(int descriptor, std::span<const std::byte> bytes, Deadline deadline);
bool Receive(int descriptor, std::span<std::byte> bytes, Deadline deadline);

// On all interfaces, by IPv6 and IPv4; accept4 of it does not block. An Error (kInternal) is the
// system's.
Result<Socket> Listen(int port, int backlog);

// One attempt at each of the host's addresses, five seconds at the most for one, whatever the
// resolver and the network do. An Error (kNo) is the last one's: "Connection refused".
Result<Socket> ConnectTo(const std::string& host, int port, Deadline deadline);

// Small messages at once, and a host that is off is noticed after a minute.
void SetUpConnection(int descriptor);

}  // namespace twinstep
