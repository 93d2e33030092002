// SPDX-License-Identifier: Apache-2.0
// The tree against the tables of docs/spec/sysfs.md sections 3 and 6, both ways.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench.hpp"

namespace elevd::sysfs {
namespace {

/// Marked "should", and left out: not built (docs/architecture.md, "Decided differences"), later,
/// or a directory of its own that other tests look at.
const std::set<std::string> kLeftOut = {"io_timeout", "wbt_lat_usec", "mq/N/", "trace/", "loop/"};

struct SpecifiedRow {
  std::string name;
  std::string mode;
  std::string need;
};

std::string trimmed(std::string text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(trimmed(part));
  return parts;
}

/// "atomic_write_max_bytes, _unit_min_bytes" and "async_depth (new)" written out.
std::vector<std::string> names_of(const std::string& cell) {
  std::vector<std::string> names;
  for (std::string name : split(cell, ',')) {
    name = name.substr(0, name.find(' '));
    if (name.starts_with('_')) name = "atomic_write" + name;
    names.push_back(name);
  }
  return names;
}

/// Rows of the first table after the heading of section `number`.
std::vector<SpecifiedRow> rows_of_section(int number) {
  std::ifstream page(ELEVD_SYSFS_PAGE);
  REQUIRE(page.is_open());
  const std::string heading = "## " + std::to_string(number) + ". ";
  std::vector<SpecifiedRow> rows;
  bool inside = false;
  int lines = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line.starts_with(heading);
    if (!inside || !line.starts_with('|') || ++lines <= 2) continue;
    const std::vector<std::string> cells = split(line.substr(1), '|');
    REQUIRE(cells.size() >= 5);
    const std::vector<std::string> names = names_of(cells[0]);
    const std::vector<std::string> modes = split(cells[1], ',');
    for (std::size_t i = 0; i < names.size(); ++i) {
      rows.push_back({names[i], modes[std::min(i, modes.size() - 1)], cells.back().substr(0, 1)});
    }
  }
  return rows;
}

void check_section(int section, std::span<const Attribute> table) {
  std::map<std::string, const Attribute*> have;
  for (const Attribute& row : table) have[std::string(row.name)] = &row;
  const std::vector<SpecifiedRow> rows = rows_of_section(section);
  CHECK(rows.size() > 15);
  CHECK(std::count_if(rows.begin(), rows.end(),
                      [](const SpecifiedRow& r) { return r.need == "M"; }) > 4);
  std::set<std::string> named;
  for (const SpecifiedRow& row : rows) {
    CAPTURE(row.name);
    named.insert(row.name);
    const auto it = have.find(row.name);
    if (it == have.end()) {
      CHECK((row.need == "N" || (row.need == "S" && kLeftOut.contains(row.name))));
      continue;
    }
    const bool writable = row.mode == "rw";
    CHECK((writable || row.mode == "r" || row.mode == "ro"));
    CHECK(it->second->mode == (writable ? 0644 : 0444));
    CHECK((it->second->store != nullptr) == writable);
  }
  // Files of our own would be listed here; there are none beside the directory elevd/.
  for (const auto& [name, row] : have) {
    CAPTURE(name);
    CHECK(named.contains(name));
  }
}

TEST_SUITE("specification") {
  TEST_CASE("queue/ has what section 3 names, with its modes") { check_section(3, queue_files()); }

  TEST_CASE("a disk has what section 6 names, with its modes") { check_section(6, disk_files()); }

  TEST_CASE("every file can be read, and what is shown ends in one newline or is empty") {
    const Bench bench;
    for (const DirectoryTable& table : disk_directories()) {
      for (const Attribute& row : table.files) {
        const std::string path = std::string(table.path) + (table.path.empty() ? "" : "/");
        const std::string shown = bench.show(path + std::string(row.name));
        CAPTURE(row.name);
        CHECK_FALSE(shown.starts_with("errno"));
        if (row.name != "events_async") CHECK(shown.find('\n') == shown.size() - 1);
      }
    }
  }
}

}  // namespace
}  // namespace elevd::sysfs
