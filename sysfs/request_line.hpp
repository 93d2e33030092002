// SPDX-License-Identifier: Apache-2.0
// Request line: how the debug tree writes a request, docs/spec/sysfs.md section 8.
//
// Owns:       nothing.
// Thread:     any; pure functions.
#pragma once

#include <span>
#include <string>

#include "sched/queue_view.hpp"

namespace elevd::sysfs {

/// "00000000987b81d9 {.op=READ, .cmd_flags=SYNC, .rq_flags=STARTED|IO_STAT, .state=in_flight,
/// .tag=0, .internal_tag=112}" and a newline.
[[nodiscard]] std::string format_request(const sched::RequestView& rq);

/// One line for each.
[[nodiscard]] std::string format_requests(std::span<const sched::RequestView> list);

}  // namespace elevd::sysfs
