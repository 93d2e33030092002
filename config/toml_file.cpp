// SPDX-License-Identifier: Apache-2.0
#include "config/toml_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

#include "config/disk_builder.hpp"
#include "config/text.hpp"

namespace elevd::config {
namespace {

constexpr std::array<std::string_view, 6> kTopKeys = {"transport",    "dir",       "workers",
                                                      "stop_timeout", "busy_poll", "disk"};

// A key of a table with its value, taken out so that it can be walked in the order of the file.
struct Item {
  const toml::key* key;
  const toml::node* value;
};

std::vector<Item> in_file_order(const toml::table& table) {
  std::vector<Item> items;
  items.reserve(table.size());
  for (auto&& [key, value] : table) items.push_back({&key, &value});
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    const auto& left = a.key->source().begin;
    const auto& right = b.key->source().begin;
    return std::pair(left.line, left.column) < std::pair(right.line, right.column);
  });
  return items;
}

std::string_view expectation(ValueType type) {
  switch (type) {
    case ValueType::text:
      return "expected a string";
    case ValueType::number:
      return "expected a whole number";
    case ValueType::boolean:
      return "expected true or false";
    case ValueType::size:
      return "expected a string such as \"128M\" or a whole number of bytes";
    case ValueType::duration:
      return "expected a string such as \"500ms\" or a whole number of seconds";
  }
  return "expected a value";
}

// The value as the command line would spell it; empty: the wrong type.
std::optional<std::string> text_of(const toml::node& value, ValueType type) {
  const bool takes_string = type != ValueType::number && type != ValueType::boolean;
  const bool takes_number = type != ValueType::text && type != ValueType::boolean;
  if (const auto* text = value.as_string(); text != nullptr && takes_string) return text->get();
  if (const auto* number = value.as_integer(); number != nullptr && takes_number) {
    return fmt::format("{}", number->get());
  }
  if (const auto* flag = value.as_boolean(); flag != nullptr && type == ValueType::boolean) {
    return flag->get() ? "1" : "0";
  }
  return std::nullopt;
}

// An attribute's value: what one would echo into the file.
std::optional<std::string> attribute_text(const toml::node& value) {
  if (auto text = text_of(value, ValueType::size)) return text;
  return text_of(value, ValueType::boolean);
}

class Reader {
 public:
  Reader(std::string_view path, std::span<const std::string_view> attributes)
      : path_(path), attributes_(attributes) {}

  Result<FileConfig> read(const toml::table& root) {
    for (const Item& item : in_file_order(root)) {
      if (auto done = top_key(item); !done) return tl::unexpected(done.error());
    }
    return std::move(config_);
  }

 private:
  Place place_of(const Item& item, std::string label) const {
    return {fmt::format("{}:{}", path_, item.key->source().begin.line), std::move(label)};
  }

  static tl::unexpected<Error> wrong_type(const Place& place, std::string_view expected) {
    return tl::unexpected(error_at(place, fmt::format("wrong type, {}", expected), EINVAL));
  }

  // Reads a value of the top level through `parse` into `target`.
  template <class T, class Parse>
  Result<void> top_value(const Item& item, ValueType type, std::optional<T>& target, Parse parse) {
    const Place place = place_of(item, std::string(item.key->str()));
    const auto text = text_of(*item.value, type);
    if (!text) return wrong_type(place, expectation(type));
    auto value = parse(*text);
    if (!value) return tl::unexpected(error_at(place, value.error().what, value.error().code));
    target = *std::move(value);
    return {};
  }

  Result<void> top_key(const Item& item) {
    const std::string_view key = item.key->str();
    if (key == "transport") {
      return top_value(item, ValueType::text, config_.transport, parse_transport);
    }
    if (key == "workers") return top_value(item, ValueType::number, config_.workers, parse_workers);
    if (key == "stop_timeout") {
      return top_value(item, ValueType::duration, config_.stop_timeout, parse_stop_timeout);
    }
    if (key == "busy_poll") {
      return top_value(item, ValueType::duration, config_.busy_poll, parse_busy_poll);
    }
    if (key == "dir") return top_value(item, ValueType::text, config_.directory, parse_directory);
    if (key == "disk") return disks(item);
    const Place place = place_of(item, std::string(key));
    if (is_disk_key(key) || key == kGroupWeightsKey) {
      return tl::unexpected(
          error_at(place, "unknown key, expected below a line [disk.NAME]", EINVAL));
    }
    return tl::unexpected(error_at(place, "unknown key" + suggestion(key, kTopKeys), EINVAL));
  }

  static Result<std::string> parse_directory(std::string_view text) {
    if (!text.empty() && text.find('\0') == std::string_view::npos) return std::string(text);
    return tl::unexpected(
        Error{EINVAL, fmt::format("{} is not a directory, expected a path", quote(text))});
  }

  static bool is_disk_key(std::string_view key) {
    const auto names = disk_key_names();
    return std::find(names.begin(), names.end(), key) != names.end();
  }

  Result<void> disks(const Item& item) {
    const auto* table = item.value->as_table();
    if (table == nullptr) {
      return wrong_type(place_of(item, "disk"), "expected tables named [disk.NAME]");
    }
    for (const Item& disk : in_file_order(*table)) {
      if (auto done = one_disk(disk); !done) return done;
    }
    return {};
  }

  Result<void> one_disk(const Item& item) {
    const std::string_view name = item.key->str();
    const std::string label = fmt::format("disk.{}", name);
    const Place place = place_of(item, quoted_label(label));
    if (auto good = check_disk_name(name); !good) {
      return tl::unexpected(error_at(place, good.error().what, EINVAL));
    }
    const auto* table = item.value->as_table();
    if (table == nullptr) return wrong_type(place, fmt::format("expected a table [{}]", label));
    DiskBuilder builder(name, place, attributes_);
    for (const Item& entry : in_file_order(*table)) {
      if (auto done = disk_entry(builder, label, entry); !done) return done;
    }
    auto disk = builder.finish();
    if (!disk) return tl::unexpected(disk.error());
    config_.disks.push_back(*std::move(disk));
    return {};
  }

  // A label is part of a line, so it must be one.
  static std::string quoted_label(std::string_view label) {
    const std::string text = quote(label);
    return text.substr(1, text.size() - 2);
  }

  Result<void> disk_entry(DiskBuilder& builder, const std::string& label, const Item& item) {
    const std::string_view key = item.key->str();
    const Place place = place_of(item, quoted_label(fmt::format("{}.{}", label, key)));
    if (key == "queue") return queue_table(builder, place, item, "");
    if (key == kGroupWeightsKey) return group_weights(builder, place, item);
    if (!is_disk_key(key)) return tl::unexpected(unknown_disk_key(place, key));
    const ValueType type = disk_key_type(key);
    const auto text = text_of(*item.value, type);
    if (!text) return wrong_type(place, expectation(type));
    return builder.set_key(key, *text, place);
  }

  Error unknown_disk_key(const Place& place, std::string_view key) const {
    if (std::find(kTopKeys.begin(), kTopKeys.end(), key) != kTopKeys.end()) {
      return error_at(place, "unknown key, expected above the first line [disk.NAME]", EINVAL);
    }
    std::vector<std::string> dotted;
    std::transform(attributes_.begin(), attributes_.end(), std::back_inserter(dotted),
                   [](std::string_view path) { return as_dotted(path); });
    const auto at = std::find(attributes_.begin(), attributes_.end(), nearest(key, attributes_));
    const std::string_view near = nearest(key, disk_key_names());
    if (near.empty() && at != attributes_.end()) {
      const auto index = static_cast<std::size_t>(std::distance(attributes_.begin(), at));
      return error_at(place, fmt::format("unknown key, did you mean {}?", dotted[index]), EINVAL);
    }
    std::vector<std::string_view> candidates(disk_key_names().begin(), disk_key_names().end());
    candidates.emplace_back("queue");
    candidates.emplace_back(kGroupWeightsKey);
    return error_at(place, "unknown key" + suggestion(key, candidates), EINVAL);
  }

  Result<void> group_weights(DiskBuilder& builder, const Place& table_place, const Item& item) {
    const auto* table = item.value->as_table();
    if (table == nullptr) return wrong_type(table_place, "expected a table of paths and weights");
    for (const Item& entry : in_file_order(*table)) {
      const std::string_view path = entry.key->str();
      const Place place =
          place_of(entry, quoted_label(fmt::format("{}.{}", table_place.label, path)));
      const auto text = text_of(*entry.value, ValueType::number);
      if (!text) return wrong_type(place, expectation(ValueType::number));
      if (auto done = builder.add_group_weight(path, *text, place); !done) return done;
    }
    return {};
  }

  // "iosched/fifo_batch" as it is written in the file: "queue.iosched.fifo_batch".
  static std::string as_dotted(std::string_view path) {
    std::string dotted = "queue." + std::string(path);
    std::replace(dotted.begin(), dotted.end(), '/', '.');
    return dotted;
  }

  // `prefix`: the path below queue/ of this table, empty or ending in '/'.
  Result<void> queue_table(DiskBuilder& builder, const Place& table_place, const Item& item,
                           const std::string& prefix) {
    const auto* table = item.value->as_table();
    if (table == nullptr) return wrong_type(table_place, "expected attributes below it");
    for (const Item& entry : in_file_order(*table)) {
      const std::string_view key = entry.key->str();
      const Place place =
          place_of(entry, quoted_label(fmt::format("{}.{}", table_place.label, key)));
      const std::string path = prefix + std::string(key);
      const bool is_group = std::any_of(attributes_.begin(), attributes_.end(),
                                        [&](auto known) { return known.starts_with(path + "/"); });
      if (is_group || entry.value->is_table()) {
        if (!is_group) return tl::unexpected(unknown_attribute(place, path, prefix));
        if (auto done = queue_table(builder, place, entry, path + "/"); !done) return done;
        continue;
      }
      if (auto done = queue_entry(builder, place, entry, path, prefix); !done) return done;
    }
    return {};
  }

  Error unknown_attribute(const Place& place, std::string_view path,
                          const std::string& prefix) const {
    const auto candidates = below(prefix);
    return error_at(place, "unknown key" + suggestion(path.substr(prefix.size()), candidates),
                    EINVAL);
  }

  // The names at one level: of all attributes with the prefix, what follows it up to the next '/'.
  std::vector<std::string_view> below(const std::string& prefix) const {
    std::vector<std::string_view> names;
    for (const std::string_view path : attributes_) {
      if (!path.starts_with(prefix)) continue;
      const std::string_view rest = path.substr(prefix.size());
      const std::string_view name = rest.substr(0, rest.find('/'));
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return names;
  }

  Result<void> queue_entry(DiskBuilder& builder, const Place& place, const Item& item,
                           const std::string& path, const std::string& prefix) {
    const bool known = path == "scheduler" ||
                       std::find(attributes_.begin(), attributes_.end(), path) != attributes_.end();
    if (!known) return tl::unexpected(unknown_attribute(place, path, prefix));
    const auto text = attribute_text(*item.value);
    if (!text) return wrong_type(place, "expected a string, a whole number, true or false");
    return builder.set_attribute(path, *text, place, attributes_);
  }

  std::string_view path_;
  std::span<const std::string_view> attributes_;
  FileConfig config_;
};

Result<std::string> read_whole(const std::string& path) {
  const auto failed = [&](int code) {
    return tl::unexpected(
        Error{code, fmt::format("{}: {}", path, std::generic_category().message(code))});
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return failed(errno);
  std::string text;
  std::array<char, 4096> buffer;
  ssize_t count = 0;
  do {
    count = ::read(descriptor, buffer.data(), buffer.size());
    if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  } while (count > 0 || (count < 0 && errno == EINTR));
  const int code = errno;
  ::close(descriptor);
  if (count < 0) return failed(code);
  return text;
}

}  // namespace

std::span<const std::string_view> top_key_names() { return kTopKeys; }

Result<FileConfig> parse_toml(std::string_view text, std::string_view path,
                              std::span<const std::string_view> attributes) {
  try {
    const toml::table root = toml::parse(text, path);
    return Reader(path, attributes).read(root);
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    std::replace(what.begin(), what.end(), '\n', ' ');
    return tl::unexpected(
        Error{EINVAL, fmt::format("{}:{}: {}", path, error.source().begin.line, what)});
  }
}

Result<FileConfig> load(const std::string& path, std::span<const std::string_view> attributes) {
  return read_whole(path).and_then(
      [&](const std::string& text) { return parse_toml(text, path, attributes); });
}

}  // namespace elevd::config
