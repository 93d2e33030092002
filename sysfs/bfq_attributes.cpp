// SPDX-License-Identifier: Apache-2.0
// Files of bfq: tunables (docs/spec/bfq.md section 16), the weights of groups (section 13), and
// counters in the debug tree, which the kernel has not.
#include <fmt/format.h>

#include <cerrno>
#include <limits>

#include "attribute.hpp"
#include "grammar.hpp"
#include "group_weights.hpp"
#include "sched/bfq.hpp"

namespace elevd::sysfs {
namespace {

using sched::Bfq;
using sched::BfqTunables;

constexpr std::uint64_t kBfqMost = std::numeric_limits<std::int32_t>::max();
/// The longest wait is what fits into 32 bits of nanoseconds; the kernel wraps instead.
constexpr std::uint64_t kHighestIdleMs = 4294;
constexpr std::uint64_t kHighestIdleUs = 4294967;
/// timeout_sync is kept in ticks of 4 ms.
constexpr std::uint64_t kTickMs = 4;

/// What `use` makes of the elevator, under its lock; ENODEV if it is another one by now.
template <class Use>
auto with_bfq(Disk& disk, Use use) {
  using Value = decltype(use(std::declval<Bfq&>()));
  return disk.queue->with_elevator([&](sched::Elevator* elevator) -> tl::expected<Value, int> {
    auto* const bfq = dynamic_cast<Bfq*>(elevator);
    if (bfq == nullptr) return tl::unexpected(ENODEV);
    return use(*bfq);
  });
}

template <auto Get>
Shown show_bfq(Disk& disk) {
  return with_bfq(disk, [](Bfq& bfq) -> std::uint64_t { return Get(bfq.tunables()); })
      .map([](std::uint64_t value) { return fmt::format("{}\n", value); });
}

template <auto Set, std::uint64_t Low, std::uint64_t High>
Outcome store_bfq(Disk& disk, std::string_view text) {
  const auto value = parse_ulc(text, Low, High);
  if (!value) return Refused{value.error()};
  const auto stored = with_bfq(disk, [&](Bfq& bfq) {
    BfqTunables tunables = bfq.tunables();
    Set(tunables, *value);
    bfq.set_tunables(tunables);
    return true;
  });
  if (!stored) return Refused{stored.error()};
  return Done{};
}

template <auto Member, std::uint64_t Low, std::uint64_t High>
constexpr Attribute bfq_row(std::string_view name) {
  constexpr auto kGet = [](const BfqTunables& tunables) -> std::uint64_t {
    return tunables.*Member;
  };
  constexpr auto kSet = [](BfqTunables& tunables, std::uint64_t value) {
    using Type = std::remove_reference_t<decltype(tunables.*Member)>;
    tunables.*Member = static_cast<Type>(value);
  };
  return tunable(name, show_bfq<kGet>, store_bfq<kSet, Low, High>);
}

constexpr auto kIdleMs = [](const BfqTunables& tunables) -> std::uint64_t {
  return tunables.slice_idle_us / 1000;
};
constexpr auto kSetIdleMs = [](BfqTunables& tunables, std::uint64_t value) {
  tunables.slice_idle_us = static_cast<std::uint32_t>(value * 1000);
};
constexpr auto kTimeout = [](const BfqTunables& tunables) -> std::uint64_t {
  return tunables.timeout_sync_ms;
};
constexpr auto kSetTimeout = [](BfqTunables& tunables, std::uint64_t value) {
  tunables.timeout_sync_ms = static_cast<std::uint32_t>((value + kTickMs - 1) / kTickMs * kTickMs);
};

/// They are kept while another scheduler is there; the file is not.
Shown show_group_weights(Disk& disk) {
  return with_bfq(disk, [](Bfq&) { return true; }).map([&](bool) {
    return format_group_weights(disk);
  });
}

Outcome store_group_weights(Disk& disk, std::string_view text) {
  if (const auto there = with_bfq(disk, [](Bfq&) { return true; }); !there) {
    return Refused{there.error()};
  }
  if (const int error = store_group_weight(disk, text); error != 0) return Refused{error};
  return Done{};
}

constexpr Attribute kBfqFiles[] = {
    bfq_row<&BfqTunables::back_seek_max_kb, 0, kBfqMost>("back_seek_max"),
    bfq_row<&BfqTunables::back_seek_penalty, 1, kBfqMost>("back_seek_penalty"),
    bfq_row<&BfqTunables::fifo_expire_async_ms, 1, kBfqMost>("fifo_expire_async"),
    bfq_row<&BfqTunables::fifo_expire_sync_ms, 1, kBfqMost>("fifo_expire_sync"),
    tunable("group_weights", show_group_weights, store_group_weights),
    bfq_row<&BfqTunables::low_latency, 0, 1>("low_latency"),
    bfq_row<&BfqTunables::max_budget, 0, kBfqMost>("max_budget"),
    tunable("slice_idle", show_bfq<kIdleMs>, store_bfq<kSetIdleMs, 0, kHighestIdleMs>),
    bfq_row<&BfqTunables::slice_idle_us, 0, kHighestIdleUs>("slice_idle_us"),
    bfq_row<&BfqTunables::strict_guarantees, 0, 1>("strict_guarantees"),
    tunable("timeout_sync", show_bfq<kTimeout>, store_bfq<kSetTimeout, 1, kBfqMost>),
};
static_assert(sorted_by_name(kBfqFiles));

/// A line each, so that a scenario can expect one of them.
Shown show_cooperation(Disk& disk) {
  return with_bfq(disk, [](Bfq& bfq) { return bfq.counts(); }).map([](const Bfq::Counts& counts) {
    return fmt::format("merged {}\njoined {}\nsplit {}\ninjected {}\n", counts.redirected,
                       counts.joined, counts.split, counts.injected);
  });
}

constexpr Attribute kBfqDebugFiles[] = {scheduler_debug_file("cooperation", show_cooperation)};

}  // namespace

std::span<const Attribute> bfq_files() { return kBfqFiles; }
std::span<const Attribute> bfq_debug_files() { return kBfqDebugFiles; }

}  // namespace elevd::sysfs
