// SPDX-License-Identifier: Apache-2.0
// Merge: who may join whom, docs/spec/plug-and-merge.md section 4.
//
// Owns:       nothing.
// Thread:     whoever owns the request (its plug's worker, or the lock of the list it is in).
// Invariants: a request that refused a neighbour for its size or segments takes nobody any more.
#pragma once

#include "bio.hpp"
#include "limits.hpp"
#include "request.hpp"

namespace elevd::sched {

enum class MergeResult : std::uint8_t { none, back, front, refused };

/// Whether anybody may ever join `rq`.
[[nodiscard]] bool mergeable(const Request& rq);

/// How `bio` lies to `rq`, not looking at limits: back, front or none. False conditions of the
/// rules other than size (operation, priority, flags) give none.
[[nodiscard]] MergeResult merge_kind(const Request& rq, const Bio& bio);

/// Joins `bio` to `rq` if all rules allow it; the only merge test per entry there is. `refused`:
/// adjacent, but over a limit; the request is then marked NOMERGE.
MergeResult try_merge(const Limits& limits, Request& rq, Bio& bio);

/// Appends `next` to `rq` if all rules allow it (as a back merge of two requests); `next` then has
/// no bios left and its tag is to be freed by the caller. False: nothing changed.
bool try_merge_requests(const Limits& limits, Request& rq, Request& next);

}  // namespace elevd::sched
