// SPDX-License-Identifier: Apache-2.0
#include "request_line.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace elevd::sysfs {
namespace {

constexpr std::array<std::string_view, sched::kOps> kOperations = {"READ", "WRITE", "FLUSH",
                                                                   "DISCARD", "WRITE_ZEROES"};

struct Flag {
  unsigned bit;
  std::string_view name;
};
constexpr Flag kCommandFlags[] = {
    {sched::kBioSync, "SYNC"},
    {sched::kBioNoMerge, "NOMERGE"},
    {sched::kBioFua, "FUA"},
    {sched::kBioPreflush, "PREFLUSH"},
};
constexpr unsigned kHasSchedulerTag = 1U << 16U;  // no flag of a request
constexpr Flag kRequestFlags[] = {
    {sched::kRqStarted, "STARTED"},
    {sched::kRqFlushSeq, "FLUSH_SEQ"},
    {kHasSchedulerTag, "SCHED_TAGS|USE_SCHED"},
    {sched::kRqIoStat, "IO_STAT"},
};

std::string names(std::span<const Flag> flags, unsigned set) {
  std::string text;
  for (const Flag& flag : flags) {
    if ((set & flag.bit) == 0) continue;
    if (!text.empty()) text += '|';
    text += flag.name;
  }
  return text;
}

}  // namespace

std::string format_request(const sched::RequestView& rq) {
  const unsigned command =
      rq.bio_flags | ((rq.flags & sched::kRqNoMerge) != 0 ? unsigned{sched::kBioNoMerge} : 0U);
  const unsigned request = rq.flags | (rq.internal_tag >= 0 ? kHasSchedulerTag : 0U);
  return fmt::format(
      "{:016x} {{.op={}, .cmd_flags={}, .rq_flags={}, .state={}, .tag={}, .internal_tag={}}}\n",
      reinterpret_cast<std::uintptr_t>(rq.address), kOperations[static_cast<unsigned>(rq.op)],
      names(kCommandFlags, command), names(kRequestFlags, request),
      rq.at_driver ? "in_flight" : "idle", rq.tag, rq.internal_tag);
}

std::string format_requests(std::span<const sched::RequestView> list) {
  std::string text;
  for (const sched::RequestView& rq : list) text += format_request(rq);
  return text;
}

}  // namespace elevd::sysfs
