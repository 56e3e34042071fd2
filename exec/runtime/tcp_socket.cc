#include "exec/runtime/tcp_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

using Clock = std::chrono::steady_clock;

// Of one address: the host may have another that answers.
constexpr auto kAttemptLimit = std::chrono::seconds(5);

Error SystemError(const std::string& what) {
  return {.code = ExitCode::kInternal,
          .message = StrCat(what, ": ", std::strerror(errno)),
          .rule = "processes"};
}

Error NoConnection(std::string why) {
  return {.code = ExitCode::kNo, .message = std::move(why), .rule = "processes"};
}

struct Endpoint {
  int family = 0, protocol = 0;
  sockaddr_storage address{};
  socklen_t size = 0;
};

Result<std::vector<Endpoint>> Resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) return NoConnection(gai_strerror(code));
  std::vector<Endpoint> endpoints;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Endpoint& endpoint = endpoints.emplace_back();
    endpoint.family = at->ai_family;
    endpoint.protocol = at->ai_protocol;
    std::memcpy(&endpoint.address, at->ai_addr, at->ai_addrlen);
    endpoint.size = at->ai_addrlen;
  }
  freeaddrinfo(found);
  return endpoints;
}

// The resolver has time limits of its own, so it is left to a thread that nobody waits for longer.
Result<std::vector<Endpoint>> ResolveUntil(const std::string& host, int port, Deadline deadline) {
  std::packaged_task<Result<std::vector<Endpoint>>()> task(
      [host, port] { return Resolve(host, port); });
  std::future<Result<std::vector<Endpoint>>> resolved = task.get_future();
  std::thread(std::move(task)).detach();
  if (deadline && resolved.wait_until(*deadline) != std::future_status::ready) {
    return NoConnection("its name is not resolved");
  }
  return resolved.get();
}

Result<Socket> Attempt(const Endpoint& endpoint, Clock::time_point deadline) {
  Socket attempt(
      socket(endpoint.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, endpoint.protocol));
  if (!attempt.open()) return NoConnection(std::strerror(errno));
  if (connect(attempt.get(), reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.size) !=
      0) {
    if (errno != EINPROGRESS) return NoConnection(std::strerror(errno));
    if (!Ready(attempt.get(), POLLOUT, deadline)) return NoConnection("no answer");
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(attempt.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return NoConnection(std::strerror(error));
  }
  const int flags = fcntl(attempt.get(), F_GETFL);
  if (fcntl(attempt.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return SystemError("fcntl");
  return attempt;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool Ready(int descriptor, short events, Deadline deadline) {
  pollfd poll_for{.fd = descriptor, .events = events, .revents = 0};
  int ready = -1;
  do {
    int left_ms = -1;
    if (deadline.has_value()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
      left_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000'000));
    }
    ready = poll(&poll_for, 1, left_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

bool Send(int descriptor, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (!Ready(descriptor, POLLOUT, deadline)) return false;
    const ssize_t sent = send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool Receive(int descriptor, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (!Ready(descriptor, POLLIN, deadline)) return false;
    const ssize_t received = recv(descriptor, bytes.data(), bytes.size(), 0);
    if (received <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(received));
  }
  return true;
}

Result<Socket> Listen(int port, int backlog) {
  constexpr int kType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  Socket listener(socket(AF_INET6, kType, 0));
  const bool has_v6 = listener.open();
  if (!has_v6) listener = Socket(socket(AF_INET, kType, 0));
  if (!listener.open()) return SystemError("socket");
  const int yes = 1, no = 0;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (has_v6) setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  const int bound = has_v6
                        ? bind(listener.get(), reinterpret_cast<const sockaddr*>(&v6), sizeof v6)
                        : bind(listener.get(), reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  if (bound != 0 || listen(listener.get(), backlog) != 0) {
    return SystemError(StrCat("cannot listen on port ", port));
  }
  return listener;
}

Result<Socket> ConnectTo(const std::string& host, int port, Deadline deadline) {
  const Result<std::vector<Endpoint>> endpoints = ResolveUntil(host, port, deadline);
  if (!endpoints.ok()) return endpoints.error();
  Error last = NoConnection("it has no address");
  for (const Endpoint& endpoint : endpoints.value()) {
    const Clock::time_point limit = Clock::now() + kAttemptLimit;
    Result<Socket> peer = Attempt(endpoint, deadline ? std::min(*deadline, limit) : limit);
    if (peer.ok()) return peer;
    last = peer.error();
  }
  return last;
}

void SetUpConnection(int descriptor) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(descriptor, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace twinstep
