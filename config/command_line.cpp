// SPDX-License-Identifier: Apache-2.0
// GCC 12 sees null pointers in what it inlines from CLI11 that are not there.
#pragma GCC diagnostic ignored "-Wnull-dereference"

#include "config/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "config/disk_builder.hpp"
#include "config/text.hpp"
#include "config/toml_file.hpp"

namespace elevd::config {
namespace {

constexpr std::array<std::string_view, 10> kOptions = {
    "--disk",      "--config",    "--transport", "--workers", "--stop-timeout",
    "--busy-poll", "--daemonize", "--check",     "--version", "--help"};

// The words as they were given.
struct Words {
  std::optional<std::string> directory;
  std::vector<std::string> disks;
  std::optional<std::string> file;
  std::optional<std::string> transport;
  std::optional<std::string> workers;
  std::optional<std::string> stop_timeout;
  std::optional<std::string> busy_poll;
  bool daemonize = false;
  bool check = false;
};

void declare(CLI::App& app, Words& words, const CommandLineContext& context) {
  app.name("elevd");
  app.allow_extras();
  app.set_version_flag("--version", "elevd " + context.version);
  app.add_option("DIR", words.directory,
                 "Directory to serve; default /run/elevd for root, else $XDG_RUNTIME_DIR/elevd")
      ->type_name("");
  app.add_option("--disk", words.disks,
                 "A disk; BACKING is a path, ram:SIZE or null:SIZE, the keys are those of the "
                 "file. May be given several times")
      ->allow_extra_args(false)
      ->type_name("NAME=BACKING[,key=value...]");
  app.add_option("--config", words.file, "Configuration file (TOML)")->type_name("FILE");
  app.add_option("--transport", words.transport, "How the kernel is reached; default auto")
      ->type_name("auto|uring|dev");
  app.add_option("--workers", words.workers, "Worker threads; default one a CPU, at most 8")
      ->type_name("N");
  app.add_option("--stop-timeout", words.stop_timeout,
                 "Time a stopping daemon waits for I/O; default 30s")
      ->type_name("D");
  app.add_option("--busy-poll", words.busy_poll,
                 "Time an idle worker looks for work before it sleeps; default 0")
      ->type_name("D");
  app.add_flag("--daemonize", words.daemonize, "Go to the background when everything is served");
  app.add_flag("--check", words.check, "Check the configuration and end");
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string unexpected_word(const std::string& word) {
  if (word.size() < 2 || !word.starts_with('-')) {
    return fmt::format("{}: unexpected argument, expected one DIR and options", quote(word));
  }
  const std::string name = word.substr(0, word.find('='));
  return fmt::format("{}: unknown option{}", quote(name), suggestion(name, kOptions));
}

// CLI11's own words, but for an option that was given twice.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name() != "--disk" && option->count() > 1) {
      return fmt::format("{}: given twice, expected once", option->get_name());
    }
  }
  return one_line(error.what());
}

// Fills `words`; an answer means that this was all.
std::optional<Answer> read_words(int argc, const char* const* argv, Words& words,
                                 const CommandLineContext& context) {
  CLI::App app("elevd: a block layer in user space");
  declare(app, words, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Answer{0, app.help()};
  } catch (const CLI::CallForVersion& version) {
    return Answer{0, std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& error) {
    return Answer{kExitUsage, parse_problem(app, error)};
  }
  const auto extras = app.remaining();
  if (!extras.empty()) return Answer{kExitUsage, unexpected_word(extras.front())};
  return std::nullopt;
}

Error option_error(std::string_view option, const Error& error) {
  return {error.code, fmt::format("{}: {}", option, error.what)};
}

// Lets `text`, when given, replace `target`.
template <class T, class Parse>
Result<void> override_value(std::string_view option, const std::optional<std::string>& text,
                            T& target, Parse parse) {
  if (!text) return {};
  auto value = parse(*text);
  if (!value) return tl::unexpected(option_error(option, value.error()));
  target = *std::move(value);
  return {};
}

Result<void> apply_file(const Words& words, const CommandLineContext& context,
                        DaemonConfig& config) {
  if (!words.file) return {};
  auto file = load(*words.file, context.attributes);
  if (!file) return tl::unexpected(file.error());
  config.directory = file->directory.value_or("");
  config.transport = file->transport.value_or(config.transport);
  config.workers = file->workers.value_or(config.workers);
  config.stop_timeout = file->stop_timeout.value_or(config.stop_timeout);
  config.busy_poll = file->busy_poll.value_or(config.busy_poll);
  config.disks = std::move(file->disks);
  return {};
}

Result<void> apply_disks(const Words& words, const CommandLineContext& context,
                         DaemonConfig& config) {
  for (const std::string& text : words.disks) {
    auto disk = parse_disk(text, context.attributes);
    if (!disk) return tl::unexpected(disk.error());
    const auto same =
        std::find_if(config.disks.begin(), config.disks.end(),
                     [&](const DiskConfig& other) { return other.name == disk->name; });
    if (same != config.disks.end()) {
      return tl::unexpected(
          Error{EINVAL, fmt::format("{}: the name is taken by {}, expected another name",
                                    disk->origin, same->origin)});
    }
    config.disks.push_back(*std::move(disk));
  }
  if (config.disks.empty()) {
    if (words.file) {
      return tl::unexpected(
          Error{EINVAL, fmt::format("{}: no disk, expected a table [disk.NAME]", *words.file)});
    }
    return tl::unexpected(Error{EINVAL, "no disk: give --disk NAME=BACKING or --config FILE"});
  }
  return {};
}

Result<void> apply_directory(const Words& words, const CommandLineContext& context,
                             DaemonConfig& config) {
  if (words.directory) config.directory = *words.directory;
  if (words.directory && words.directory->empty()) {
    return tl::unexpected(Error{EINVAL, "DIR: it is empty, expected a path"});
  }
  if (config.directory.empty()) {
    config.directory = default_directory(context.is_root, context.runtime_directory);
  }
  if (config.directory.empty() && !config.check_only) {
    return tl::unexpected(Error{EINVAL, "no DIR and no $XDG_RUNTIME_DIR: give the directory DIR"});
  }
  return {};
}

Result<DaemonConfig> to_config(const Words& words, const CommandLineContext& context) {
  DaemonConfig config;
  config.daemonize = words.daemonize;
  config.check_only = words.check;
  return apply_file(words, context, config)
      .and_then([&] {
        return override_value("--transport", words.transport, config.transport, parse_transport);
      })
      .and_then(
          [&] { return override_value("--workers", words.workers, config.workers, parse_workers); })
      .and_then([&] {
        return override_value("--stop-timeout", words.stop_timeout, config.stop_timeout,
                              parse_stop_timeout);
      })
      .and_then([&] {
        return override_value("--busy-poll", words.busy_poll, config.busy_poll, parse_busy_poll);
      })
      .and_then([&] { return apply_disks(words, context, config); })
      .and_then([&] { return apply_directory(words, context, config); })
      .map([&] { return std::move(config); });
}

// Cuts the text before the first separator off and removes both from `text`.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

// One key[=value] behind the backing.
Result<void> apply_item(DiskBuilder& builder, std::string_view item, const std::string& origin,
                        std::span<const std::string_view> attributes) {
  const auto keys = disk_key_names();
  const bool has_value = item.find('=') != std::string_view::npos;
  std::string_view value = item;
  const std::string_view key = take_until(value, '=');
  const Place place{origin, one_line(std::string(key))};
  if (!has_value && key != "read_only") {
    return tl::unexpected(
        error_at({origin, ""},
                 fmt::format("{} is not key=value, expected one (a path with a comma needs "
                             "--config FILE)",
                             quote(item)),
                 EINVAL));
  }
  if (!has_value) value = "1";
  if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
    return builder.set_key(key, value, place);
  }
  std::vector<std::string_view> candidates(keys.begin(), keys.end());
  std::copy_if(attributes.begin(), attributes.end(), std::back_inserter(candidates),
               [](std::string_view path) { return path != "scheduler"; });
  if (key.starts_with("queue/") || key.starts_with("queue.")) {  // as in the tree, as in the file
    std::string path(key.substr(std::string_view("queue/").size()));
    std::replace(path.begin(), path.end(), '.', '/');
    return tl::unexpected(error_at(place, "unknown key" + suggestion(path, candidates), EINVAL));
  }
  return builder.set_attribute(key, value, place, candidates);
}

}  // namespace

Result<DiskConfig> parse_disk(std::string_view text, std::span<const std::string_view> attributes) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return tl::unexpected(Error{
        EINVAL,
        fmt::format("--disk: {} has no '=', expected NAME=BACKING[,key=value...]", quote(text))});
  }
  std::string_view rest = text;
  const std::string_view name = take_until(rest, '=');
  if (auto good = check_disk_name(name); !good) {
    return tl::unexpected(option_error("--disk", good.error()));
  }
  const std::string origin = fmt::format("--disk {}", name);
  DiskBuilder builder(name, {origin, ""}, attributes);
  const std::string_view backing = take_until(rest, ',');
  if (auto done = builder.set_key("backing", backing, {origin, "backing"}); !done) {
    return tl::unexpected(done.error());
  }
  const bool ends_in_comma = text.ends_with(',');
  while (!rest.empty()) {
    if (auto done = apply_item(builder, take_until(rest, ','), origin, attributes); !done) {
      return tl::unexpected(done.error());
    }
  }
  if (ends_in_comma) {
    return tl::unexpected(error_at({origin, ""}, "nothing after ',', expected key=value", EINVAL));
  }
  return builder.finish();
}

CommandLine parse_command_line(int argc, const char* const* argv,
                               const CommandLineContext& context) {
  Words words;
  if (auto answer = read_words(argc, argv, words, context)) return *std::move(answer);
  auto config = to_config(words, context);
  if (!config) return Answer{kExitUsage, config.error().what};
  return *std::move(config);
}

}  // namespace elevd::config
