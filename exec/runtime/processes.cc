#include "exec/runtime/processes.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr int kMostProcesses = 65536;
constexpr int kLastPort = 65535;
constexpr int kDefaultPort = 29500;  // torchrun's.

using Variable = std::function<const char*(const char*)>;
using Clock = std::chrono::steady_clock;

struct Launcher {
  const char *rank, *size, *local_rank;
};
// torchrun's; Open MPI's; Slurm's of the step, since a batch script has the job's number of tasks,
// too, and is no task; MPICH's and Intel MPI's.
constexpr std::array kLaunchers{
    Launcher{"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    Launcher{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
    Launcher{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}};

Error PlaceError(std::string message) {
  return {.message = std::move(message), .rule = "processes"};
}

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

Result<int> Number(const Variable& variable, const char* name, int least, int most) {
  const char* const text = variable(name);
  if (text == nullptr) {
    return PlaceError(StrCat("several processes need ", name, ", which is not set"));
  }
  int number = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stop != end || number < least || number > most) {
    return PlaceError(StrCat(name, " is '", text, "', not a number from ", least, " to ", most));
  }
  return number;
}

// The first host of Slurm's list: "gpu007" of "gpu[007-009,012],login1".
std::string FirstHost(std::string_view list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string_view::npos || comma < bracket) {
    return std::string(list.substr(0, comma));
  }
  const std::string_view numbers = list.substr(bracket + 1);
  const std::size_t end = numbers.find_first_of("-,]");
  const std::size_t close = numbers.find(']');
  std::string_view suffix = close == std::string_view::npos ? "" : numbers.substr(close + 1);
  suffix = suffix.substr(0, suffix.find(','));
  return StrCat(list.substr(0, bracket), numbers.substr(0, end), suffix);
}

Result<std::string> Address(const Variable& variable, const Launcher& launcher, int size) {
  if (const char* const given = variable("MASTER_ADDR")) return std::string(given);
  const char* const on_host = variable("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (on_host != nullptr && std::to_string(size) == on_host) return std::string("127.0.0.1");
  if (std::string_view(launcher.rank).starts_with("SLURM")) {
    for (const char* const list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
      if (const char* const hosts = variable(list)) return FirstHost(hosts);
    }
  }
  return PlaceError(StrCat("several processes (", launcher.size, " is ", size,
                           ") need MASTER_ADDR, the host of process 0, which is not set"));
}

// A descriptor that is closed unless it is kept.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.Keep()) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  int Keep() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

// Whether `events` come before `deadline`; for ever without one.
bool Ready(int descriptor, short events, std::optional<Clock::time_point> deadline) {
  int left_ms = -1;
  if (deadline.has_value()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - Clock::now());
    left_ms = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  }
  pollfd poll_for{.fd = descriptor, .events = events, .revents = 0};
  int ready = -1;
  do {
    ready = poll(&poll_for, 1, left_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

bool Send(int descriptor, std::span<const std::byte> bytes,
          std::optional<Clock::time_point> deadline) {
  while (!bytes.empty()) {
    if (!Ready(descriptor, POLLOUT, deadline)) return false;
    const ssize_t sent = send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool Receive(int descriptor, std::span<std::byte> bytes,
             std::optional<Clock::time_point> deadline) {
  while (!bytes.empty()) {
    if (!Ready(descriptor, POLLIN, deadline)) return false;
    const ssize_t received = recv(descriptor, bytes.data(), bytes.size(), 0);
    if (received <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(received));
  }
  return true;
}

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
std::span<std::byte> WritableBytesOf(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Small messages at once, and a host that is off is noticed after a minute.
void SetUp(int descriptor) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(descriptor, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

// What the two ends of a connection say first: others may knock, or listen, on the port.
struct Greeting {
  std::array<char, 12> magic{"twinstep-1"};
  std::int32_t rank = 0;
  std::int32_t size = 0;
};
constexpr auto kGreetingLimit = std::chrono::seconds(5);

Result<Socket> Listen(int port, int processes) {
  Socket listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool has_v6 = listener.open();
  if (!has_v6) listener = Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.open()) return Failed("socket");
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
  if (bound != 0 || listen(listener.get(), processes) != 0) {
    return Failed(StrCat("process 0 cannot listen on port ", port, " (MASTER_PORT + 1)"));
  }
  return listener;
}

std::string Missing(const std::vector<int>& sockets) {
  std::string names;
  for (std::size_t rank = 1; rank < sockets.size(); ++rank) {
    if (sockets[rank] < 0) names += StrCat(names.empty() ? "" : ", ", rank);
  }
  return names;
}

Status AcceptAll(const ProcessPlace& place, Clock::time_point deadline, std::vector<int>* sockets) {
  const Result<Socket> listener = Listen(place.port, place.size);
  if (!listener.ok()) return listener.error();
  for (int left = place.size - 1; left > 0;) {
    if (!Ready(listener.value().get(), POLLIN, deadline)) {
      return Gone(StrCat("process ", Missing(*sockets), " of ", place.size, " did not come"));
    }
    Socket peer(accept4(listener.value().get(), nullptr, nullptr, SOCK_CLOEXEC));
    Greeting greeting;
    const auto limit = std::min(deadline, Clock::now() + kGreetingLimit);
    if (!peer.open() || !Receive(peer.get(), WritableBytesOf(greeting), limit) ||
        greeting.magic != Greeting{}.magic || greeting.size != place.size || greeting.rank <= 0 ||
        greeting.rank >= place.size) {
      continue;
    }
    int& socket = (*sockets)[static_cast<std::size_t>(greeting.rank)];
    if (socket >= 0 || !Send(peer.get(), BytesOf(Greeting{.size = place.size}), limit)) continue;
    SetUp(peer.get());
    socket = peer.Keep();
    --left;
  }
  return Unit{};
}

Socket Connect(const ProcessPlace& place) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(place.address.c_str(), std::to_string(place.port).c_str(), &hints, &found) != 0) {
    return Socket(-1);
  }
  Socket result(-1);
  for (const addrinfo* at = found; at != nullptr && !result.open(); at = at->ai_next) {
    Socket attempt(socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    if (attempt.open() && connect(attempt.get(), at->ai_addr, at->ai_addrlen) == 0) {
      result = std::move(attempt);
    }
  }
  freeaddrinfo(found);
  return result;
}

Status ConnectToFirst(const ProcessPlace& place, Clock::time_point deadline,
                      std::vector<int>* sockets) {
  while (Clock::now() < deadline) {
    Socket peer = Connect(place);
    Greeting greeting;
    if (peer.open() &&
        Send(peer.get(), BytesOf(Greeting{.rank = place.rank, .size = place.size}), deadline) &&
        Receive(peer.get(), WritableBytesOf(greeting), deadline) &&
        greeting.magic == Greeting{}.magic && greeting.size == place.size) {
      SetUp(peer.get());
      (*sockets)[0] = peer.Keep();
      return Unit{};
    }
    // Process 0 may not listen yet.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return Gone(StrCat("process ", place.rank, ": process 0 does not answer at ", place.address,
                     ", port ", place.port));
}

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
    const Result<std::string> address = Address(variable, launcher, place.size);
    if (!address.ok()) return address.error();
    const Result<int> port = variable("MASTER_PORT") == nullptr
                                 ? Result<int>(kDefaultPort)
                                 : Number(variable, "MASTER_PORT", 1, kLastPort - 1);
    if (!port.ok()) return port.error();
    place.rank = rank.value();
    place.local_rank = local_rank.value();
    place.address = address.value();
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

Result<std::shared_ptr<Processes>> Processes::Join(const ProcessPlace& place, double timeout_s) {
  std::shared_ptr<Processes> processes(new Processes(place));
  processes->sockets_.resize(static_cast<std::size_t>(place.size), -1);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(timeout_s));
  if (place.size == 1) return processes;
  const Status joined = place.rank == 0 ? AcceptAll(place, deadline, &processes->sockets_)
                                        : ConnectToFirst(place, deadline, &processes->sockets_);
  if (!joined.ok()) return joined.error();
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
  if (theirs == settings) return Unit{};
  for (const auto& [name, value] : settings) {
    if (theirs[name] == value) continue;
    return PlaceError(
        StrCat("process ", place_.rank, ": ", name, " is ", value, ", process 0's ", theirs[name]));
  }
  return PlaceError(StrCat("process ", place_.rank, " trains otherwise than process 0"));
}

}  // namespace twinstep
