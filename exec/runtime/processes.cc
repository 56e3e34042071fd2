#include "exec/runtime/processes.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "exec/runtime/host_cores.h"
#include "exec/runtime/tcp_socket.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

using Clock = std::chrono::steady_clock;

Error Differs(std::string message) { return {.message = std::move(message), .rule = "processes"}; }

std::string Shown(const std::string& value) { return value.empty() ? "empty" : value; }

Error Gone(std::string message) {
  return {.code = ExitCode::kNo, .message = std::move(message), .rule = "processes"};
}

Error Ended(const ProcessPlace& place, std::size_t other) {
  return Gone(
      StrCat("process ", place.rank, ": process ", other, " has ended; what it wrote may say why"));
}

Error Failed(const std::string& what) {
  return {.code = ExitCode::kInternal,
          .message = StrCat(what, ": ", std::strerror(errno)),
          .rule = "processes"};
}

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
std::span<std::byte> WritableBytesOf(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// What the two ends of a connection say first: others may knock, or listen, on the port.
struct Greeting {
  std::array<char, 12> magic{"twinstep-2"};
  std::int32_t rank = 0;
  std::int32_t size = 0;
  HostCores cores;
};
constexpr auto kGreetingLimit = std::chrono::seconds(5);

std::string Missing(const std::vector<int>& sockets) {
  std::string names;
  for (std::size_t rank = 1; rank < sockets.size(); ++rank) {
    if (sockets[rank] < 0) names += StrCat(names.empty() ? "" : ", ", rank);
  }
  return names;
}

// The cores of all, by process.
Result<std::vector<HostCores>> AcceptAll(const ProcessPlace& place, double timeout_s,
                                         Clock::time_point deadline, std::vector<int>* sockets) {
  const Result<Socket> listener = Listen(place.port, place.size);
  if (!listener.ok()) {
    Error error = listener.error();
    error.message = StrCat("process 0: ", error.message, " (MASTER_PORT + 1)");
    return error;
  }
  std::vector<HostCores> cores(sockets->size());
  cores[0] = ThisHostCores();
  for (int left = place.size - 1; left > 0;) {
    if (Clock::now() >= deadline || !Ready(listener.value().get(), POLLIN, deadline)) {
      return Gone(StrCat("process ", Missing(*sockets), " of ", place.size, " did not come to ",
                         place.address, ", port ", place.port, " (MASTER_PORT + 1), in ", timeout_s,
                         " s"));
    }
    Socket peer(accept4(listener.value().get(), nullptr, nullptr, SOCK_CLOEXEC));
    Greeting greeting;
    const auto limit = std::min(deadline, Clock::now() + kGreetingLimit);
    if (!peer.open() || !Receive(peer.get(), WritableBytesOf(greeting), limit) ||
        greeting.magic != Greeting{}.magic || greeting.size != place.size || greeting.rank <= 0 ||
        greeting.rank >= place.size) {
      continue;
    }
    const auto rank = static_cast<std::size_t>(greeting.rank);
    int& socket = (*sockets)[rank];
    const Greeting answer{.size = place.size, .cores = {}};
    if (socket >= 0 || !Send(peer.get(), BytesOf(answer), limit)) continue;
    SetUpConnection(peer.get());
    socket = peer.Keep();
    cores[rank] = greeting.cores;
    --left;
  }
  return cores;
}

// Accepts all, then tells each its share of its host's cores; returns the own one.
Result<int> GatherAll(const ProcessPlace& place, double timeout_s, Clock::time_point deadline,
                      std::vector<int>* sockets) {
  const Result<std::vector<HostCores>> cores = AcceptAll(place, timeout_s, deadline, sockets);
  if (!cores.ok()) return cores.error();
  const std::vector<int> shares = ShareCores(cores.value());
  for (std::size_t rank = 1; rank < shares.size(); ++rank) {
    if (!Send((*sockets)[rank], BytesOf(std::int32_t{shares[rank]}), deadline)) {
      return Ended(place, rank);
    }
  }
  return shares[0];
}

// Returns this process's share of its host's cores, once all have come.
Result<int> ConnectToFirst(const ProcessPlace& place, double timeout_s, Clock::time_point deadline,
                           std::vector<int>* sockets) {
  const Greeting own{.rank = place.rank, .size = place.size, .cores = ThisHostCores()};
  const std::string first =
      StrCat("process 0 at ", place.address, ", port ", place.port, " (MASTER_PORT + 1)");
  std::string why;
  do {
    Result<Socket> peer = ConnectTo(place.address, place.port, deadline);
    Greeting greeting;
    if (!peer.ok()) {
      why = peer.error().message;
    } else if (!Send(peer.value().get(), BytesOf(own), deadline) ||
               !Receive(peer.value().get(), WritableBytesOf(greeting), deadline) ||
               greeting.magic != Greeting{}.magic || greeting.size != place.size) {
      why = StrCat("what listens there is not process 0 of ", place.size);
    } else {
      SetUpConnection(peer.value().get());
      (*sockets)[0] = peer.value().Keep();
      std::int32_t share = 0;
      if (Receive((*sockets)[0], WritableBytesOf(share), deadline)) return int{share};
      if (Clock::now() < deadline) return Ended(place, 0);
      return Gone(StrCat("process ", place.rank, ": ", first, ", still waits for others after ",
                         timeout_s, " s"));
    }
    // Process 0 may not listen yet.
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + std::chrono::milliseconds(50)));
  } while (Clock::now() < deadline);
  return Gone(StrCat("process ", place.rank, ": ", first, ", does not answer (", why, ") in ",
                     timeout_s, " s"));
}

}  // namespace

Result<std::shared_ptr<Processes>> Processes::Join(const ProcessPlace& place, double timeout_s) {
  std::shared_ptr<Processes> processes(new Processes(place));
  processes->sockets_.resize(static_cast<std::size_t>(place.size), -1);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(timeout_s));
  if (place.size == 1) {
    processes->cores_ = ShareCores(std::array{ThisHostCores()})[0];
    return processes;
  }
  const Result<int> cores = place.rank == 0
                                ? GatherAll(place, timeout_s, deadline, &processes->sockets_)
                                : ConnectToFirst(place, timeout_s, deadline, &processes->sockets_);
  if (!cores.ok()) return cores.error();
  processes->cores_ = cores.value();
  return processes;
}

Processes::~Processes() {
  for (const int descriptor : sockets_) {
    if (descriptor >= 0) close(descriptor);
  }
}

Status Processes::CheckAlive() const {
  std::vector<pollfd> polled;
  for (const int descriptor : sockets_) {
    polled.push_back({.fd = descriptor, .events = POLLRDHUP, .revents = 0});
  }
  if (poll(polled.data(), polled.size(), 0) <= 0) return Unit{};
  for (std::size_t rank = 0; rank < polled.size(); ++rank) {
    if (polled[rank].revents != 0) return Ended(place_, rank);
  }
  return Unit{};
}

Result<std::vector<std::byte>> Processes::ShareFirst(std::span<const std::byte> bytes) const {
  constexpr std::byte kHere{1};
  std::uint64_t size = bytes.size();
  if (place_.rank != 0) {
    std::vector<std::byte> shared;
    if (!Send(sockets_[0], BytesOf(kHere), {}) ||
        !Receive(sockets_[0], WritableBytesOf(size), {})) {
      return Ended(place_, 0);
    }
    shared.resize(size);
    if (!Receive(sockets_[0], shared, {})) return Ended(place_, 0);
    return shared;
  }
  // In the order in which they come, so that the end of any is seen.
  std::vector<pollfd> waiting;
  for (const int descriptor : sockets_) {
    waiting.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }
  for (std::size_t left = sockets_.size() - 1; left > 0;) {
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return Failed("poll");
    for (std::size_t rank = 1; rank < waiting.size(); ++rank) {
      if (waiting[rank].fd < 0 || waiting[rank].revents == 0) continue;
      std::byte here{};
      if (!Receive(waiting[rank].fd, WritableBytesOf(here), {})) return Ended(place_, rank);
      waiting[rank].fd = -1;
      --left;
    }
  }
  for (std::size_t rank = 1; rank < sockets_.size(); ++rank) {
    if (!Send(sockets_[rank], BytesOf(size), {}) || !Send(sockets_[rank], bytes, {})) {
      return Ended(place_, rank);
    }
  }
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

Status Processes::Agree(const std::map<std::string, std::string>& settings) const {
  // Names and values have no zero bytes.
  std::string text;
  for (const auto& [name, value] : settings) text += name + '\0' + value + '\0';
  const Result<std::vector<std::byte>> first = ShareFirst(std::as_bytes(std::span(text)));
  if (!first.ok()) return first.error();
  std::map<std::string, std::string> theirs;
  std::string_view rest(reinterpret_cast<const char*>(first.value().data()), first.value().size());
  const auto next = [&rest] {
    const std::string word(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    return word;
  };
  while (!rest.empty()) {
    const std::string name = next();
    theirs[name] = next();
  }
  for (const auto& [name, value] : settings) {
    const auto same = theirs.find(name);
    if (same != theirs.end() && same->second == value) continue;
    return Differs(StrCat("process ", place_.rank, ": ", name, " is ", Shown(value), ", process 0",
                          same == theirs.end() ? " has none" : "'s " + Shown(same->second)));
  }
  for (const auto& [name, value] : theirs) {
    if (settings.contains(name)) continue;
    return Differs(
        StrCat("process ", place_.rank, " has no ", name, ", process 0's is ", Shown(value)));
  }
  return Unit{};
}

}  // namespace twinstep
