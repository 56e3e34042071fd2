#include "exec/runtime/process_place.h"

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr int kMostProcesses = 65536;
constexpr int kLastPort = 65535;
constexpr int kDefaultPort = 29500;  // torchrun's.

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

Result<int> Number(const EnvironmentVariable& variable, const char* name, int least, int most) {
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

Result<std::string> Address(const EnvironmentVariable& variable, const Launcher& launcher,
                            int size) {
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

// Null: there is one process. Otherwise `size` is above 1.
Result<const Launcher*> FindLauncher(const EnvironmentVariable& variable, int* size) {
  for (const Launcher& launcher : kLaunchers) {
    if (variable(launcher.size) == nullptr) continue;
    const Result<int> number = Number(variable, launcher.size, 1, kMostProcesses);
    if (!number.ok()) return number.error();
    *size = number.value();
    return *size == 1 ? nullptr : &launcher;
  }
  return nullptr;
}

}  // namespace

Result<ProcessPlace> ReadProcessPlace(const EnvironmentVariable& variable) {
  ProcessPlace place;
  const Result<const Launcher*> found = FindLauncher(variable, &place.size);
  if (!found.ok()) return found.error();
  if (found.value() == nullptr) return place;
  const Launcher& launcher = *found.value();
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
  place.variable = launcher.size;
  return place;
}

Status CheckOneProcess(const EnvironmentVariable& variable, const std::string& verb) {
  int size = 1;
  const Result<const Launcher*> found = FindLauncher(variable, &size);
  if (!found.ok()) return found.error();
  if (found.value() == nullptr) return Unit{};
  const std::string name = found.value()->size;
  return PlaceError(StrCat(name, " is ", size,
                           ", so a launcher has started several processes, and ", verb,
                           " needs all ranks in one, which uses all GPUs of its host: start ",
                           "it without torchrun, mpirun or srun (or unset ", name, ")"));
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

}  // namespace twinstep
