// SPDX-License-Identifier: Apache-2.0
#include "queue_view.hpp"

#include "request_queue.hpp"

namespace elevd::sched {
namespace {

// Layout of Request::shown. The highest bit is always set while something is shown.
constexpr unsigned kFlagsAt = 3;
constexpr unsigned kBioFlagsAt = 19;
constexpr unsigned kTagAt = 35;
constexpr std::uint64_t kAtDriver = std::uint64_t{1} << 63U;

void add_if_shown(const Request& rq, std::int32_t internal_tag, std::vector<RequestView>& list) {
  const std::uint64_t shown = rq.shown.load(std::memory_order_relaxed);
  if (shown == 0) return;
  RequestView view;
  view.address = &rq;
  view.op = static_cast<Op>(shown & 7U);
  view.flags = static_cast<RequestFlags>(shown >> kFlagsAt);
  view.bio_flags = static_cast<BioFlags>(shown >> kBioFlagsAt);
  view.at_driver = true;
  view.tag = static_cast<std::int32_t>((shown >> kTagAt) & 0x7fffU) - 1;
  view.internal_tag = internal_tag;
  list.push_back(view);
}

TagMapView view_tags(TagMap& tags) {
  TagMapView view = view_of(tags.bitmap());
  view.wake_batch = tags.wake_batch();
  view.wake_index = tags.wake_index();
  view.parked = tags.parked();
  for (unsigned q = 0; q < TagMap::kWaitQueues; ++q) view.active[q] = tags.queue_active(q);
  view.min_shallow_depth = tags.min_shallow_depth();
  return view;
}

}  // namespace

RequestView view_of(const Request& rq) {
  return {&rq, rq.op, rq.bio_flags, rq.flags, false, rq.tag, rq.internal_tag};
}

TagMapView view_of(const Sbitmap& bitmap) {
  TagMapView view;
  view.depth = bitmap.depth();
  view.busy = bitmap.busy();
  view.cleared = bitmap.cleared();
  view.bits_per_word = bitmap.bits_per_word();
  view.word_count = bitmap.word_count();
  for (unsigned w = 0; w < bitmap.workers(); ++w) view.hints.push_back(bitmap.hint(w));
  view.round_robin = bitmap.round_robin();
  view.bits.assign((view.depth + 7) / 8, 0);
  for (std::uint32_t bit = 0; bit < view.depth; ++bit) {
    if (!bitmap.is_taken(bit)) continue;
    view.bits[bit / 8] = static_cast<std::uint8_t>(view.bits[bit / 8] | (1U << (bit % 8)));
  }
  return view;
}

void show_at_driver(Request& rq, bool on) {
  std::uint64_t shown = 0;
  if (on) {
    shown = kAtDriver | static_cast<std::uint64_t>(rq.op) | (std::uint64_t{rq.flags} << kFlagsAt) |
            (std::uint64_t{rq.bio_flags} << kBioFlagsAt) |
            (static_cast<std::uint64_t>(rq.tag + 1) << kTagAt);
  }
  rq.shown.store(shown, std::memory_order_relaxed);
}

TagMapView RequestQueue::view_hardware_tags() const {
  const LockGuard guard(lock_);
  return view_tags(*hardware_tags_);
}

TagMapView RequestQueue::view_sched_tags() const {
  const LockGuard guard(lock_);
  return sched_tags_ ? view_tags(*sched_tags_) : TagMapView{};
}

std::vector<RequestView> RequestQueue::view_residual() const {
  const LockGuard guard(lock_);
  std::vector<RequestView> list;
  for (const Request& rq : residual_) list.push_back(view_of(rq));
  return list;
}

std::vector<RequestView> RequestQueue::view_software(unsigned worker) const {
  QueueContext& context = *contexts_[worker];
  const LockGuard guard(context.software_lock);
  std::vector<RequestView> list;
  for (const Request& rq : context.software_queue) list.push_back(view_of(rq));
  return list;
}

std::vector<RequestView> RequestQueue::view_busy() const {
  const LockGuard guard(lock_);
  std::vector<RequestView> list;
  const TagMap& tags = sched_tags_ ? *sched_tags_ : *hardware_tags_;
  for (std::uint32_t tag = 0; tag < tags.depth(); ++tag) {
    add_if_shown(tags.request(tag), sched_tags_ ? static_cast<std::int32_t>(tag) : -1, list);
  }
  add_if_shown(flush_.flush_request(), -1, list);
  return list;
}

}  // namespace elevd::sched
