// SPDX-License-Identifier: Apache-2.0
// Map lines: how the debug tree writes a map of tags or tokens, docs/spec/sysfs.md section 8.
//
// Owns:       nothing.
// Thread:     any; pure functions.
#pragma once

#include <string>

#include "sched/queue_view.hpp"

namespace elevd::sysfs {

/// "depth=256", "busy=0" and so on, a line each.
[[nodiscard]] std::string format_map(const sched::TagMapView& view);

}  // namespace elevd::sysfs
