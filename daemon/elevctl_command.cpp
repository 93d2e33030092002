// SPDX-License-Identifier: Apache-2.0
// GCC 12 sees null pointers in what it inlines from CLI11 that are not there.
#pragma GCC diagnostic ignored "-Wnull-dereference"

#include "daemon/elevctl_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "config/number.hpp"
#include "config/size.hpp"
#include "config/text.hpp"
#include "daemon/simulation.hpp"

namespace elevd::daemon {
namespace {

constexpr std::array<std::string_view, 4> kCommands = {"list", "get", "set", "simulate"};

ElevctlOutcome refused(std::string error) { return {kElevctlRefused, {}, std::move(error)}; }
ElevctlOutcome misused(std::string error) { return {kElevctlUsage, {}, std::move(error)}; }

// The text without the final newline and blanks around it.
std::string_view stripped(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  const std::size_t end = text.find_last_not_of(kBlanks);
  return end == std::string_view::npos ? std::string_view{} : text.substr(begin, end + 1 - begin);
}

std::string_view without_newline(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!(text = stripped(text)).empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

std::vector<std::string_view> views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

// The word in brackets of a scheduler file: the active one.
std::string active_scheduler(std::string_view text) {
  for (const std::string_view word : words_of(text)) {
    if (word.starts_with('[') && word.ends_with(']')) {
      return std::string(word.substr(1, word.size() - 2));
    }
  }
  return std::string(stripped(text));
}

constexpr std::string_view kAbsent = "-";

std::string shown(const Tree& tree, const std::string& disk, std::string_view attribute) {
  const auto text = tree.read(disk, attribute);
  if (!text || stripped(*text).empty()) return std::string(kAbsent);
  return std::string(stripped(*text));
}

std::string shown_size(const Tree& tree, const std::string& disk) {
  constexpr std::uint64_t kSectorSize = 512;
  const auto sectors = config::parse_number(
      shown(tree, disk, "disk/size"), 0, std::numeric_limits<std::uint64_t>::max() / kSectorSize);
  return sectors ? config::format_size(*sectors * kSectorSize) : std::string(kAbsent);
}

std::string shown_access(const Tree& tree, const std::string& disk) {
  std::string text = shown(tree, disk, "disk/ro");
  if (text == kAbsent) return text;
  return text == "0" ? "rw" : "ro";
}

using Line = std::vector<std::string>;

// Columns as wide as their widest cell, two blanks between them, none at the end of a line.
std::string aligned(const std::vector<Line>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    for (std::size_t i = 0; i + 1 < line.size(); ++i) {
      text += fmt::format("{:<{}}  ", line[i], widths[i]);
    }
    text += line.back() + "\n";
  }
  return text;
}

ElevctlOutcome no_tree(const Tree& tree, const config::Error& error) {
  const std::string what = fmt::format("{}: {}", tree.block_directory(), error.what);
  if (error.code == ENOENT || error.code == ENOTDIR) {
    return misused(what + ", expected a directory served by elevd (give it with -d DIR)");
  }
  return refused(what);
}

ElevctlOutcome list(const Tree& tree) {
  const auto disks = tree.disks();
  if (!disks) return no_tree(tree, disks.error());
  std::vector<Line> lines;
  bool has_async_depth = false;
  for (const std::string& disk : *disks) {
    Line line = {disk,
                 shown_size(tree, disk),
                 active_scheduler(shown(tree, disk, "scheduler")),
                 shown(tree, disk, "nr_requests"),
                 shown(tree, disk, "async_depth"),
                 shown_access(tree, disk)};
    has_async_depth = has_async_depth || line[4] != kAbsent;
    lines.push_back(std::move(line));
  }
  lines.insert(lines.begin(),
               Line{"DISK", "SIZE", "SCHEDULER", "NR_REQUESTS", "ASYNC_DEPTH", "ACCESS"});
  if (!has_async_depth) {
    for (Line& line : lines) line.erase(line.begin() + 4);
  }
  return {0, aligned(lines), {}};
}

// Empty status 0 if the disk is there.
ElevctlOutcome check_disk(const Tree& tree, const std::string& disk) {
  if (tree.has_disk(disk)) return {};
  const auto disks = tree.disks();
  if (!disks) return no_tree(tree, disks.error());
  return misused(fmt::format("{}: no such disk in {}{}", config::quote(disk),
                             tree.block_directory(), config::suggestion(disk, views(*disks))));
}

bool is_group(const std::vector<std::string>& attributes, const std::string& attribute) {
  return std::any_of(attributes.begin(), attributes.end(),
                     [&](const std::string& known) { return known.starts_with(attribute + "/"); });
}

// Why an attribute could not be opened; status 0 if its name is not the reason.
ElevctlOutcome bad_attribute(const Tree& tree, const std::string& disk,
                             const std::string& attribute, int code) {
  if (code != ENOENT && code != EISDIR && code != ENOTDIR && code != EINVAL) return {};
  if (tree.has_attribute(disk, attribute)) return {};
  const auto attributes = tree.attributes(disk);
  if (is_group(attributes, attribute)) {
    std::vector<std::string_view> members;
    for (const std::string& known : attributes) {
      if (known.starts_with(attribute + "/")) members.push_back(known);
    }
    return misused(fmt::format("{}: {}: a directory, expected one of {}", disk,
                               config::quote(attribute), config::joined(members)));
  }
  const std::string_view near = config::nearest(attribute, views(attributes));
  return misused(fmt::format("{}: {}: no such attribute, {}", disk, config::quote(attribute),
                             near.empty()
                                 ? fmt::format("see {}/{}/queue", tree.block_directory(), disk)
                                 : fmt::format("did you mean {}?", near)));
}

ElevctlOutcome get(const Tree& tree, const std::string& disk,
                   const std::vector<std::string>& attributes) {
  if (auto bad = check_disk(tree, disk); bad.status != 0) return bad;
  ElevctlOutcome outcome;
  for (const std::string& attribute : attributes) {
    const auto text = tree.read(disk, attribute);
    if (!text) {
      auto bad = bad_attribute(tree, disk, attribute, text.error().code);
      if (bad.status != 0) return bad;
      return refused(fmt::format("{}: {}: {}", disk, attribute, text.error().what));
    }
    if (attributes.size() > 1) outcome.output += attribute + "=";
    outcome.output += fmt::format("{}\n", without_newline(*text));
  }
  return outcome;
}

ElevctlOutcome store_refused(const Tree& tree, const std::string& disk,
                             const std::string& attribute, std::string_view value,
                             const config::Error& error) {
  const std::string assignment = fmt::format("{}={}", attribute, value);
  // As a message it has to be one line.
  const std::string quoted = config::quote(assignment);
  std::string what =
      fmt::format("{}: {}: {}", disk, quoted.substr(1, quoted.size() - 2), error.what);
  if (error.code == EINVAL) {
    const auto current = tree.read(disk, attribute);
    const std::string expected = expected_values(attribute, current.value_or(""));
    if (!expected.empty()) what += ", " + expected;
  }
  if (error.code == EACCES && !tree.is_writable(disk, attribute)) what += ", it is read-only";
  return refused(std::move(what));
}

ElevctlOutcome set(const Tree& tree, const std::string& disk,
                   const std::vector<std::string>& assignments) {
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      return misused(
          fmt::format("{}: no assignment, expected ATTR=VALUE", config::quote(assignment)));
    }
  }
  if (auto bad = check_disk(tree, disk); bad.status != 0) return bad;
  // Whether an attribute exists is seen when it is its turn: a new scheduler brings its own.
  for (const std::string& assignment : assignments) {
    const std::string attribute = assignment.substr(0, assignment.find('='));
    const std::string_view value = std::string_view(assignment).substr(attribute.size() + 1);
    if (const auto done = tree.store(disk, attribute, value); !done) {
      auto bad = bad_attribute(tree, disk, attribute, done.error().code);
      if (bad.status != 0) return bad;
      return store_refused(tree, disk, attribute, value, done.error());
    }
  }
  return {};
}

// The words as they were given.
struct Words {
  std::string directory;
  std::string disk;
  std::vector<std::string> attributes;
  std::vector<std::string> assignments;
  std::string scenario;
  bool dispatch = false;
  bool summary = false;
  bool json = false;
};

struct Commands {
  CLI::App* list = nullptr;
  CLI::App* get = nullptr;
  CLI::App* set = nullptr;
  CLI::App* simulate = nullptr;
};

void declare_simulate(CLI::App& command, Words& words) {
  command.add_option("FILE", words.scenario, "Scenario file, or - for standard input")
      ->required()
      ->type_name("");
  CLI::Option* const dispatch = command.add_flag(
      "--dispatch", words.dispatch, "Print what is given to the device, one request a line");
  command
      .add_flag("--summary", words.summary,
                "Print one line a task: merges, sequential share, throughput, latencies")
      ->excludes(dispatch);
  command.add_flag("--json", words.json, "Print one JSON object a line instead of text");
}

Commands declare(CLI::App& app, Words& words, const ElevctlContext& context) {
  app.name("elevctl");
  app.require_subcommand(0, 1);  // the second of such words is a disk that has the name
  app.set_version_flag("--version", "elevctl " + context.version);
  app.add_option("-d", words.directory,
                 "Directory elevd serves, or / for the kernel's disks; default $ELEVD_DIR, else "
                 "/run/elevd for root and $XDG_RUNTIME_DIR/elevd for others")
      ->type_name("DIR");
  Commands commands;
  commands.list = app.add_subcommand("list", "One line a disk");
  commands.get = app.add_subcommand("get", "Print attributes of a disk");
  commands.set = app.add_subcommand("set", "Store into attributes of a disk, in this order");
  commands.simulate =
      app.add_subcommand("simulate", "Run a scenario with a modelled device and a virtual clock");
  for (CLI::App* command : {commands.list, commands.get, commands.set}) command->fallthrough();
  declare_simulate(*commands.simulate, words);
  const std::string paths = "path below queue/, or disk/ and a path below the disk's directory";
  commands.get->add_option("DISK", words.disk, "Name of the disk")->required()->type_name("");
  commands.get->add_option("ATTR", words.attributes, "Attributes: " + paths)
      ->required()
      ->type_name("");
  commands.set->add_option("DISK", words.disk, "Name of the disk")->required()->type_name("");
  commands.set->add_option("ATTR=VALUE", words.assignments, "What to store; ATTR: " + paths)
      ->required()
      ->type_name("");
  return commands;
}

ElevctlOutcome simulate_file(const Words& words) {
  std::string text;
  if (words.scenario == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::ifstream file(words.scenario, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), {});
    if (!file.is_open() || file.bad()) {
      return misused(fmt::format("{}: cannot be read", config::quote(words.scenario)));
    }
  }
  OutputOptions options;
  if (words.dispatch) options.kind = OutputKind::dispatch;
  if (words.summary) options.kind = OutputKind::summary;
  options.json = words.json;
  SimulationResult result = simulate_text(text, words.scenario, options);
  return {result.status, std::move(result.output), {}, std::move(result.messages)};
}

// The line for what CLI11 refused.
ElevctlOutcome parse_problem(const CLI::App& app, const CLI::ParseError& error) {
  const auto commands = app.get_subcommands();
  const auto extras = app.remaining(true);
  if (!extras.empty()) {
    const std::string word = config::quote(extras.front());
    if (extras.front().starts_with('-')) {
      if (!commands.empty() && commands.front()->get_name() == "simulate") {
        return misused(word + ": unknown option, expected --dispatch, --summary or --json");
      }
      return misused(word + ": unknown option, expected -d DIR or --version");
    }
    if (!commands.empty()) return misused(word + ": unexpected argument");
    return misused(word + ": unknown command" + config::suggestion(extras.front(), kCommands));
  }
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (!commands.empty()) text = commands.front()->get_name() + ": " + text;
  return misused(std::move(text));
}

std::string chosen_directory(const Words& words, const ElevctlContext& context) {
  if (!words.directory.empty()) return words.directory;
  if (!context.elevd_directory.empty()) return context.elevd_directory;
  return config::default_directory(context.is_root, context.runtime_directory);
}

}  // namespace

std::string expected_values(std::string_view attribute, std::string_view current) {
  if (attribute == "scheduler") {
    std::string names;
    for (std::string_view word : words_of(current)) {
      if (word.starts_with('[') && word.ends_with(']')) word = word.substr(1, word.size() - 2);
      names += (names.empty() ? "" : ", ") + std::string(word);
    }
    return names.empty() ? "" : "expected one of " + names;
  }
  // docs/spec/sysfs.md section 3.
  struct Row {
    std::string_view attribute, expected;
  };
  constexpr std::array<Row, 6> kRows = {{
      {"nr_requests",
       "expected a number, at most 2048 with a scheduler, else at most the hardware depth"},
      {"async_depth", "expected a number above 0, and a scheduler other than none"},
      {"nomerges", "expected 0, 1 or 2"},
      {"max_sectors_kb", "expected 0 (the default) or a number from 4"},
      {"write_cache", "expected write back or write through"},
      {"discard_max_bytes", "expected 0 or a multiple of discard_granularity"},
  }};
  const auto row = std::find_if(kRows.begin(), kRows.end(),
                                [&](const Row& known) { return known.attribute == attribute; });
  return row == kRows.end() ? "" : std::string(row->expected);
}

ElevctlOutcome run_elevctl(int argc, const char* const* argv, const ElevctlContext& context) {
  CLI::App app("elevctl: look at and tune the disks of elevd");
  Words words;
  const Commands commands = declare(app, words, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {0, app.help(), {}};
  } catch (const CLI::CallForVersion& version) {
    return {0, std::string(version.what()) + "\n", {}};
  } catch (const CLI::ParseError& error) {
    return parse_problem(app, error);
  }
  if (app.get_subcommands().empty()) {
    return misused(fmt::format("no command, expected one of {}", config::joined(kCommands)));
  }
  if (commands.simulate->parsed()) return simulate_file(words);
  const std::string directory = chosen_directory(words, context);
  if (directory.empty()) {
    return misused("no DIR: give -d DIR or set $ELEVD_DIR or $XDG_RUNTIME_DIR");
  }
  const Tree tree(directory);
  if (commands.get->parsed()) return get(tree, words.disk, words.attributes);
  if (commands.set->parsed()) return set(tree, words.disk, words.assignments);
  return list(tree);
}

}  // namespace elevd::daemon
