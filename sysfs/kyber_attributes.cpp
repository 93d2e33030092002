// SPDX-License-Identifier: Apache-2.0
// Files of kyber: tunables (docs/spec/kyber.md section 7) and what its debug directories show
// (section 8).
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "attribute.hpp"
#include "grammar.hpp"
#include "map_lines.hpp"
#include "request_line.hpp"
#include "sched/kyber.hpp"

namespace elevd::sysfs {
namespace {

using sched::Kyber;
using sched::KyberDomain;

/// What `use` makes of the elevator, under its lock; ENODEV if it is another one by now.
template <class Use>
auto with_kyber(Disk& disk, Use use) {
  using Value = decltype(use(std::declval<Kyber&>()));
  return disk.queue->with_elevator([&](sched::Elevator* elevator) -> tl::expected<Value, int> {
    auto* const kyber = dynamic_cast<Kyber*>(elevator);
    if (kyber == nullptr) return tl::unexpected(ENODEV);
    return use(*kyber);
  });
}

template <KyberDomain Domain>
Shown show_target(Disk& disk) {
  return with_kyber(disk, [](Kyber& kyber) { return kyber.latency().target(Domain); })
      .map([](std::uint64_t value) { return fmt::format("{}\n", value); });
}

template <KyberDomain Domain>
Outcome store_target(Disk& disk, std::string_view text) {
  const auto value = parse_u64(text);
  if (!value) return Refused{value.error()};
  const auto stored = with_kyber(disk, [&](Kyber& kyber) {
    kyber.latency().set_target(Domain, *value);
    return true;
  });
  if (!stored) return Refused{stored.error()};
  return Done{};
}

constexpr Attribute kKyberFiles[] = {
    tunable("read_lat_nsec", show_target<KyberDomain::read>, store_target<KyberDomain::read>),
    tunable("write_lat_nsec", show_target<KyberDomain::write>, store_target<KyberDomain::write>),
};
static_assert(sorted_by_name(kKyberFiles));

// --- debug ---------------------------------------------------------------------------------------

template <KyberDomain Domain>
Shown show_tokens(Disk& disk) {
  return with_kyber(disk, [](Kyber& kyber) { return kyber.pool(Domain).view(); }).map(format_map);
}

template <KyberDomain Domain>
Shown show_requests(Disk& disk) {
  return with_kyber(disk,
                    [](Kyber& kyber) {
                      std::vector<sched::RequestView> copies;
                      for (const sched::Request& rq : kyber.flushed(Domain)) {
                        copies.push_back(sched::view_of(rq));
                      }
                      return copies;
                    })
      .map([](const std::vector<sched::RequestView>& copies) { return format_requests(copies); });
}

template <KyberDomain Domain>
Shown show_waiting(Disk& disk) {
  return with_kyber(disk, [](Kyber& kyber) { return kyber.pool(Domain).waiting(); })
      .map([](bool waiting) { return std::string(waiting ? "1\n" : "0\n"); });
}

Shown show_current(Disk& disk) {
  constexpr std::array<std::string_view, sched::kKyberDomains> kNames = {"READ", "WRITE", "DISCARD",
                                                                         "OTHER"};
  return with_kyber(disk, [](Kyber& kyber) { return kyber.current(); })
      .map([&](KyberDomain domain) {
        return fmt::format("{}\n", kNames[static_cast<unsigned>(domain)]);
      });
}

Shown show_kyber_batching(Disk& disk) {
  return with_kyber(disk, [](Kyber& kyber) { return kyber.batching(); })
      .map([](std::uint32_t value) { return fmt::format("{}\n", value); });
}

constexpr Attribute kKyberDebugFiles[] = {
    scheduler_debug_file("discard_tokens", show_tokens<KyberDomain::discard>),
    scheduler_debug_file("other_tokens", show_tokens<KyberDomain::other>),
    scheduler_debug_file("read_tokens", show_tokens<KyberDomain::read>),
    scheduler_debug_file("write_tokens", show_tokens<KyberDomain::write>),
};
static_assert(sorted_by_name(kKyberDebugFiles));

constexpr Attribute kKyberHardwareQueueDebugFiles[] = {
    scheduler_debug_file("batching", show_kyber_batching),
    scheduler_debug_file("cur_domain", show_current),
    scheduler_debug_file("discard_rqs", show_requests<KyberDomain::discard>),
    scheduler_debug_file("discard_waiting", show_waiting<KyberDomain::discard>),
    scheduler_debug_file("other_rqs", show_requests<KyberDomain::other>),
    scheduler_debug_file("other_waiting", show_waiting<KyberDomain::other>),
    scheduler_debug_file("read_rqs", show_requests<KyberDomain::read>),
    scheduler_debug_file("read_waiting", show_waiting<KyberDomain::read>),
    scheduler_debug_file("write_rqs", show_requests<KyberDomain::write>),
    scheduler_debug_file("write_waiting", show_waiting<KyberDomain::write>),
};
static_assert(sorted_by_name(kKyberHardwareQueueDebugFiles));

}  // namespace

std::span<const Attribute> kyber_files() { return kKyberFiles; }
std::span<const Attribute> kyber_debug_files() { return kKyberDebugFiles; }
std::span<const Attribute> kyber_hardware_queue_debug_files() {
  return kKyberHardwareQueueDebugFiles;
}

}  // namespace elevd::sysfs
