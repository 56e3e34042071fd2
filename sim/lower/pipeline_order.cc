#include "sim/lower/pipeline_order.h"

#include <algorithm>
#include <tuple>

namespace twinstep {
namespace {

constexpr std::int64_t kForwardTime = 1;
constexpr std::int64_t kBackwardTime = 2;

struct Span {
  std::int64_t start = 0, end = 0;
};

// Start and end of every unit in the ideal run, without communication time.
class IdealRun {
 public:
  IdealRun(const std::vector<PipelineOrder>& orders, std::int64_t p, std::int64_t v, std::int64_t m)
      : p_(p), stages_(p * v), spans_(orders.size()) {
    for (auto& by_stage : index_) by_stage.assign(static_cast<std::size_t>(stages_ * m), kUnknown);
    std::vector<std::int64_t> free_at(orders.size(), 0);
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t rank = 0; rank < orders.size(); ++rank) {
        std::vector<Span>& spans = spans_[rank];
        while (spans.size() < orders[rank].units.size()) {
          const ScheduleUnit& unit = orders[rank].units[spans.size()];
          const std::int64_t stage = StageOf(unit, rank);
          std::int64_t start = free_at[rank];
          if (HasInput(unit, stage)) {
            const std::int64_t ready = EndOf(unit, stage + (unit.backward ? 1 : -1));
            if (ready == kUnknown) break;
            start = std::max(start, ready);
          }
          const std::int64_t end = start + (unit.backward ? kBackwardTime : kForwardTime);
          spans.push_back({.start = start, .end = end});
          free_at[rank] = end;
          index_[unit.backward][Key(unit, stage)] = end;
          progress = true;
        }
      }
    }
  }

  std::int64_t StageOf(const ScheduleUnit& unit, std::size_t rank) const {
    return unit.chunk * p_ + static_cast<std::int64_t>(rank);
  }
  bool HasInput(const ScheduleUnit& unit, std::int64_t stage) const {
    return unit.backward ? stage + 1 < stages_ : stage > 0;
  }
  bool HasOutput(const ScheduleUnit& unit, std::int64_t stage) const {
    return unit.backward ? stage > 0 : stage + 1 < stages_;
  }
  const Span& SpanOf(std::size_t rank, std::size_t unit) const { return spans_[rank][unit]; }
  std::int64_t EndOf(const ScheduleUnit& unit, std::int64_t stage) const {
    return index_[unit.backward][Key(unit, stage)];
  }
  // Identifies the output of `unit` at `stage`, the same on both ends of the message.
  std::int64_t Message(const ScheduleUnit& unit, std::int64_t stage) const {
    return static_cast<std::int64_t>(Key(unit, stage)) * 2 + (unit.backward ? 1 : 0);
  }

 private:
  static constexpr std::int64_t kUnknown = -1;
  std::size_t Key(const ScheduleUnit& unit, std::int64_t stage) const {
    return static_cast<std::size_t>(unit.micro_batch * stages_ + stage);
  }

  std::int64_t p_, stages_;
  std::vector<std::vector<Span>> spans_;
  std::vector<std::int64_t> index_[2];  // End by direction, micro-batch and stage.
};

}  // namespace

std::vector<PipelineOrder> PipelineOrders(Schedule schedule, std::int64_t p, std::int64_t v,
                                          std::int64_t m) {
  std::vector<PipelineOrder> orders(static_cast<std::size_t>(p));
  for (std::size_t rank = 0; rank < orders.size(); ++rank) {
    orders[rank].units = RankSchedule(schedule, p, v, m, static_cast<std::int64_t>(rank));
  }
  const IdealRun run(orders, p, v, m);

  // When each message meets: its sender is done, and its receiver has ended the unit before last
  // (a receive is posted one unit ahead, not more, because its bytes exist from then on).
  std::vector<std::int64_t> meets(static_cast<std::size_t>(2 * p * v * m));
  for (std::size_t rank = 0; rank < orders.size(); ++rank) {
    const std::vector<ScheduleUnit>& units = orders[rank].units;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const std::int64_t stage = run.StageOf(units[u], rank);
      if (!run.HasInput(units[u], stage)) continue;
      const std::int64_t from = stage + (units[u].backward ? 1 : -1);
      std::int64_t time = run.EndOf(units[u], from);
      if (u >= 2) time = std::max(time, run.SpanOf(rank, u - 2).end);
      meets[static_cast<std::size_t>(run.Message(units[u], from))] = time;
    }
  }

  for (std::size_t rank = 0; rank < orders.size(); ++rank) {
    PipelineOrder& order = orders[rank];
    // (time, messages before units, message, item)
    std::vector<std::tuple<std::int64_t, int, std::int64_t, IssueItem>> items;
    std::vector<std::int64_t> send_times[2], send_starts[2];
    for (std::size_t u = 0; u < order.units.size(); ++u) {
      const ScheduleUnit& unit = order.units[u];
      const std::int64_t stage = run.StageOf(unit, rank);
      const auto index = static_cast<std::uint32_t>(u);
      if (run.HasInput(unit, stage)) {
        const std::int64_t message = run.Message(unit, stage + (unit.backward ? 1 : -1));
        items.emplace_back(meets[static_cast<std::size_t>(message)], 0, message,
                           IssueItem{IssueItem::Kind::kReceive, index});
      }
      items.emplace_back(run.SpanOf(rank, u).start, 1, 0, IssueItem{IssueItem::Kind::kUnit, index});
      if (run.HasOutput(unit, stage)) {
        const std::int64_t message = run.Message(unit, stage);
        const std::int64_t time = meets[static_cast<std::size_t>(message)];
        items.emplace_back(time, 0, message, IssueItem{IssueItem::Kind::kSend, index});
        send_times[unit.backward].push_back(time);
        send_starts[unit.backward].push_back(run.SpanOf(rank, u).start);
      }
    }
    std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a)) <
             std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(b));
    });
    for (const auto& item : items) order.items.push_back(std::get<3>(item));
    for (const bool backward : {false, true}) {
      std::int64_t& slots = backward ? order.backward_send_slots : order.forward_send_slots;
      const std::vector<std::int64_t>& times = send_times[backward];
      const std::vector<std::int64_t>& starts = send_starts[backward];
      for (std::size_t i = 0; i < times.size(); ++i) {
        std::size_t reuse = i + static_cast<std::size_t>(slots);
        while (reuse < starts.size() && starts[reuse] < times[i]) {
          ++slots;
          ++reuse;
        }
      }
    }
  }
  return orders;
}

}  // namespace twinstep
