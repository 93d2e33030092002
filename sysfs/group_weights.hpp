// SPDX-License-Identifier: Apache-2.0
// Group weights: the text of queue/iosched/group_weights of bfq, which the configuration writes as
// well.
//
// Owns:       nothing; the weights are in the queue of the disk and outlive its schedulers.
// Thread:     any; the elevator lock is taken.
// Invariants: what is refused changes nothing.
// See also:   sched/groups.hpp; docs/spec/sysfs.md section 5, docs/spec/bfq.md section 13.
#pragma once

#include <string>
#include <string_view>

#include "sysfs/disk.hpp"

namespace elevd::sysfs {

/// "default N", then a line "PATH N" for every cgroup that was given a weight, in order of path.
[[nodiscard]] std::string format_group_weights(Disk& disk);

/// "N" or "default N": of groups that were given none. "PATH N": of that cgroup, whether it exists
/// or not; "PATH default": it has none of its own any more. N is decimal, 1 to 1000. 0 or an errno:
/// ERANGE (N), EINVAL (everything else that is wrong), ENOSPC (too many cgroups are known).
[[nodiscard]] int store_group_weight(Disk& disk, std::string_view text);

}  // namespace elevd::sysfs
