#include "exec/runtime/processes.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr int kMostProcesses = 65536;
constexpr int kLastPort = 65535;

using Variable = std::function<const char*(const char*)>;
using Clock = std::chrono::steady_clock;

struct Launcher {
  const char* name;
  const char *rank, *size, *local_rank;
};
// Slurm's of the step: a batch script has the job's number of tasks, too, and is no task.
constexpr std::array kLaunchers{
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK"},
    Launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}};

Error PlaceError(std::string message) {
  return {.message = std::move(message), .rule = "processes"};
}

Result<int> Number(const Variable& variable, const char* name, int least, int most) {
  const char* const text = variable(name);
  if (text == nullptr)
    return PlaceError(StrCat("several processes need ", name, ", which is not set"));
  int number = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stop != end || number < least || number > most) {
    return PlaceError(StrCat(name, " is '", text, "', not a number from ", least, " to ", most));
  }
  return number;
}

Error Failed(const std::string& what) {
  return {.code = ExitCode::kInternal,
          .message = StrCat(what, ": ", std::strerror(errno)),
          .rule = "processes"};
}

class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

class Exchange {
 public:
  Exchange(const ProcessPlace& place, double timeout_s)
      : place_(place),
        deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(timeout_s))) {}

  // To every other process, once each.
  Status Serve(const std::vector<std::byte>& bytes) {
    const Socket listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!listener.open()) return Failed("socket");
    const int yes = 1, no = 0;
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    address.sin6_port = htons(static_cast<std::uint16_t>(place_.port));
    if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener.get(), place_.size) != 0) {
      return Failed(StrCat("port ", place_.port));
    }
    std::vector<bool> served(static_cast<std::size_t>(place_.size), false);
    for (int left = place_.size - 1; left > 0;) {
      if (!Ready(listener.get(), POLLIN)) {
        return Error{.code = ExitCode::kNo,
                     .message = StrCat(left, " of ", place_.size, " processes did not come"),
                     .rule = "processes"};
      }
      const Socket peer(accept(listener.get(), nullptr, nullptr));
      std::uint32_t rank = 0;
      // Others than ours may knock.
      if (!peer.open() || !Receive(peer.get(), std::as_writable_bytes(std::span(&rank, 1)))) {
        continue;
      }
      if (rank == 0 || rank >= served.size() || served[rank]) continue;
      const std::uint64_t size = bytes.size();
      if (!Send(peer.get(), std::as_bytes(std::span(&size, 1))) || !Send(peer.get(), bytes)) {
        continue;
      }
      served[rank] = true;
      --left;
    }
    return Unit{};
  }

  Result<std::vector<std::byte>> Fetch() {
    while (Clock::now() < deadline_) {
      const Socket peer = Connect();
      const auto rank = static_cast<std::uint32_t>(place_.rank);
      std::uint64_t size = 0;
      if (peer.open() && Send(peer.get(), std::as_bytes(std::span(&rank, 1))) &&
          Receive(peer.get(), std::as_writable_bytes(std::span(&size, 1))) && size <= kMostBytes) {
        std::vector<std::byte> bytes(size);
        if (Receive(peer.get(), bytes)) return bytes;
      }
      // Process 0 may not listen yet.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return Error{
        .code = ExitCode::kNo,
        .message = StrCat("process 0 does not answer at ", place_.address, ", port ", place_.port),
        .rule = "processes"};
  }

 private:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

  bool Ready(int descriptor, short events) const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
    pollfd poll_for{.fd = descriptor, .events = events, .revents = 0};
    return left.count() > 0 && poll(&poll_for, 1, static_cast<int>(left.count())) > 0;
  }

  bool Send(int descriptor, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      if (!Ready(descriptor, POLLOUT)) return false;
      const ssize_t sent = send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }

  bool Receive(int descriptor, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      if (!Ready(descriptor, POLLIN)) return false;
      const ssize_t received = recv(descriptor, bytes.data(), bytes.size(), 0);
      if (received <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(received));
    }
    return true;
  }

  Socket Connect() const {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(place_.address.c_str(), std::to_string(place_.port).c_str(), &hints, &found) !=
        0) {
      return Socket();
    }
    Socket result;
    for (const addrinfo* at = found; at != nullptr && !result.open(); at = at->ai_next) {
      Socket attempt(socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
      if (attempt.open() && connect(attempt.get(), at->ai_addr, at->ai_addrlen) == 0) {
        result = std::move(attempt);
      }
    }
    freeaddrinfo(found);
    return result;
  }

  const ProcessPlace& place_;
  Clock::time_point deadline_;
};

}  // namespace

Result<ProcessPlace> ReadProcessPlace(const Variable& variable) {
  for (const Launcher& launcher : kLaunchers) {
    if (variable(launcher.size) == nullptr) continue;
    ProcessPlace place;
    const Result<int> size = Number(variable, launcher.size, 1, kMostProcesses);
    if (!size.ok()) return size.error();
    if (size.value() == 1) return place;
    place.size = size.value();
    const Result<int> rank = Number(variable, launcher.rank, 0, place.size - 1);
    if (!rank.ok()) return rank.error();
    const Result<int> local_rank = Number(variable, launcher.local_rank, 0, place.size - 1);
    if (!local_rank.ok()) return local_rank.error();
    const Result<int> port = Number(variable, "MASTER_PORT", 1, kLastPort - 1);
    if (!port.ok()) return port.error();
    const char* const address = variable("MASTER_ADDR");
    if (address == nullptr) {
      return PlaceError(StrCat("several processes (", launcher.size, " is ", place.size,
                               ") need MASTER_ADDR, the host of process 0, which is not set"));
    }
    place.rank = rank.value();
    place.local_rank = local_rank.value();
    place.address = address;
    place.port = port.value() + 1;
    return place;
  }
  return ProcessPlace{};
}

Result<RankRange> RanksOfProcess(std::size_t ranks, const ProcessPlace& place) {
  const auto size = static_cast<std::size_t>(place.size);
  if (ranks % size != 0) {
    return PlaceError(
        StrCat("the plan's ", ranks, " ranks cannot be split over ", size, " processes evenly"));
  }
  const std::size_t share = ranks / size, first = static_cast<std::size_t>(place.rank) * share;
  return RankRange{first, first + share};
}

Result<std::vector<std::byte>> ShareFirst(const ProcessPlace& place,
                                          const std::vector<std::byte>& bytes, double timeout_s) {
  if (place.size == 1) return bytes;
  Exchange exchange(place, timeout_s);
  if (place.rank != 0) return exchange.Fetch();
  const Status served = exchange.Serve(bytes);
  if (!served.ok()) return served.error();
  return bytes;
}

}  // namespace twinstep
