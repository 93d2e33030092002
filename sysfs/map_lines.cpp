// SPDX-License-Identifier: Apache-2.0
#include "map_lines.hpp"

#include <fmt/format.h>

namespace elevd::sysfs {

std::string format_map(const sched::TagMapView& view) {
  std::string text =
      fmt::format("depth={}\nbusy={}\ncleared={}\nbits_per_word={}\nmap_nr={}\n", view.depth,
                  view.busy, view.cleared, view.bits_per_word, view.word_count);
  text += fmt::format("alloc_hint={{{}}}\nwake_batch={}\nwake_index={}\nws_active={}\nws={{\n",
                      fmt::join(view.hints, ", "), view.wake_batch, view.wake_index, view.parked);
  for (const bool active : view.active) {
    text += fmt::format("\t{{.wait={}}},\n", active ? "active" : "inactive");
  }
  text += fmt::format("}}\nround_robin={}\nmin_shallow_depth={}\n", view.round_robin ? 1 : 0,
                      view.min_shallow_depth);
  return text;
}

}  // namespace elevd::sysfs
