// SPDX-License-Identifier: Apache-2.0
#include "tree.hpp"

#include <cerrno>
#include <utility>

#include "file_rules.hpp"

namespace elevd::sysfs {
namespace {

constexpr std::uint32_t kDirectoryMode = 0755;
constexpr std::uint32_t kPermissionBits = 07777;
constexpr std::uint32_t kReadBits = 0444;
constexpr std::uint32_t kWriteBits = 0222;

/// Splits "a/b/c" into "a/b" and "c"; without a slash the first part is empty.
std::pair<std::string_view, std::string_view> split_last(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {{}, path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

Tree::Tree() {
  const Inode root = add_node(0, "", nullptr, nullptr);
  block_ = add_node(root, "block", nullptr, nullptr);
  const Inode kernel = add_node(root, "kernel", nullptr, nullptr);
  const Inode debug = add_node(kernel, "debug", nullptr, nullptr);
  debug_block_ = add_node(debug, "block", nullptr, nullptr);
}

int Tree::add_disk(Disk& disk) {
  const std::lock_guard guard(mutex_);
  if (child(block_, disk.name) != 0) return EEXIST;
  disk.tree = this;
  add_directories(block_, disk, disk_directories());
  add_directories(debug_block_, disk, debug_directories());
  if (disk.device_command) {
    const Inode debug = child(debug_block_, disk.name);
    for (const Attribute& row : modelled_device_debug_files()) {
      add_node(debug, row.name, &disk, &row);
    }
  }
  return 0;
}

void Tree::remove_disk(std::string_view name) {
  const std::lock_guard guard(mutex_);
  for (const Inode parent : {block_, debug_block_}) {
    if (const Inode inode = child(parent, name); inode != 0) remove_node(inode);
  }
}

int Tree::set_directory(std::string_view disk, std::string_view path,
                        std::span<const Attribute> rows) {
  const std::lock_guard guard(mutex_);
  return replace_directory(child(block_, disk), path, rows);
}

int Tree::replace_directory(Inode top, std::string_view path, std::span<const Attribute> rows) {
  const auto [above, name] = split_last(path);
  const Inode parent = top == 0 ? 0 : walk(top, above);
  if (parent == 0) return ENOENT;
  if (nodes_.at(parent).row != nullptr) return ENOTDIR;
  if (const Inode old = child(parent, name); old != 0) remove_node(old);
  if (rows.empty()) return 0;
  Disk* const owner = nodes_.at(top).disk;
  const Inode directory = add_node(parent, name, owner, nullptr);
  for (const Attribute& row : rows) add_node(directory, row.name, owner, &row);
  return 0;
}

void Tree::publish_scheduler(std::string_view disk, const SchedulerType& type) {
  const std::lock_guard guard(mutex_);
  const auto rows = [](auto* files) {
    return files == nullptr ? std::span<const Attribute>{} : files();
  };
  [[maybe_unused]] int gone =
      replace_directory(child(block_, disk), "queue/iosched", rows(type.files));
  gone = replace_directory(child(debug_block_, disk), "sched", rows(type.debug_files));
  gone = replace_directory(child(debug_block_, disk), "hctx0/sched",
                           rows(type.hardware_queue_debug_files));
}

tl::expected<NodeStatus, int> Tree::lookup(Inode parent, std::string_view name) const {
  const std::lock_guard guard(mutex_);
  const Inode inode = child(parent, name);
  if (inode == 0) return tl::unexpected(ENOENT);
  return describe(inode, nodes_.at(inode));
}

tl::expected<NodeStatus, int> Tree::status(Inode inode) const {
  const std::lock_guard guard(mutex_);
  const auto node = find(inode);
  if (!node) return tl::unexpected(node.error());
  return describe(inode, **node);
}

tl::expected<std::vector<Entry>, int> Tree::entries(Inode inode) const {
  const std::lock_guard guard(mutex_);
  const auto node = find(inode);
  if (!node) return tl::unexpected(node.error());
  if ((*node)->row != nullptr) return tl::unexpected(ENOTDIR);
  const Inode parent = inode == kRootInode ? kRootInode : (*node)->parent;
  std::vector<Entry> list{{".", inode, true}, {"..", parent, true}};
  for (const auto& [name, number] : (*node)->children) {
    list.push_back({name, number, nodes_.at(number).row == nullptr});
  }
  return list;
}

int Tree::check_open(Inode inode, bool for_reading, bool for_writing) const {
  const std::lock_guard guard(mutex_);
  const auto found = find(inode);
  if (!found) return found.error();
  const Node& node = **found;
  if (node.row == nullptr) return EISDIR;
  if (for_reading && (node.permissions & kReadBits) == 0) return EACCES;
  const bool writable = node.row->store != nullptr && (node.permissions & kWriteBits) != 0;
  if (for_writing && !writable) return EACCES;
  return 0;
}

tl::expected<std::string, int> Tree::show(Inode inode) const {
  const std::lock_guard guard(mutex_);
  const auto node = find(inode);
  if (!node) return tl::unexpected(node.error());
  const Attribute* const row = (*node)->row;
  if (row == nullptr) return tl::unexpected(EISDIR);
  if (row->show_or_fail != nullptr) return row->show_or_fail(*(*node)->disk);
  if (row->show_of_worker != nullptr) return row->show_of_worker(*(*node)->disk, (*node)->worker);
  if (row->show == nullptr) return std::string(row->constant);
  return row->show(*(*node)->disk);
}

Outcome Tree::store(Inode inode, std::string_view text) const {
  const std::lock_guard guard(mutex_);
  const auto node = find(inode);
  if (!node) return Refused{node.error()};
  const Attribute* const row = (*node)->row;
  if (row == nullptr) return Refused{EISDIR};
  if (row->store == nullptr) return Refused{EACCES};
  Outcome outcome = row->store(*(*node)->disk, text);
  if (auto* change = std::get_if<Change>(&outcome)) change->disk = (*node)->disk->name;
  return outcome;
}

int Tree::set_permissions(Inode inode, std::uint32_t permissions) {
  const std::lock_guard guard(mutex_);
  Node* const node = find_mutable(inode);
  if (node == nullptr) return ENODEV;
  node->permissions = permissions & kPermissionBits;
  return 0;
}

int Tree::set_owner(Inode inode, std::optional<std::uint32_t> user,
                    std::optional<std::uint32_t> group) {
  const std::lock_guard guard(mutex_);
  Node* const node = find_mutable(inode);
  if (node == nullptr) return ENODEV;
  if (user) node->user = user;
  if (group) node->group = group;
  return 0;
}

tl::expected<const Tree::Node*, int> Tree::find(Inode inode) const {
  if (const auto it = nodes_.find(inode); it != nodes_.end()) return &it->second;
  return tl::unexpected(inode != 0 && inode < next_ ? ENODEV : ENOENT);
}

Tree::Node* Tree::find_mutable(Inode inode) {
  const auto it = nodes_.find(inode);
  return it == nodes_.end() ? nullptr : &it->second;
}

Inode Tree::child(Inode parent, std::string_view name) const {
  const auto it = nodes_.find(parent);
  if (it == nodes_.end()) return 0;
  const auto entry = it->second.children.find(name);
  return entry == it->second.children.end() ? 0 : entry->second;
}

Inode Tree::walk(Inode from, std::string_view path) const {
  while (from != 0 && !path.empty()) {
    const std::size_t slash = path.find('/');
    from = child(from, path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
  }
  return from;
}

NodeStatus Tree::describe(Inode inode, const Node& node) const {
  NodeStatus status;
  status.inode = inode;
  status.directory = node.row == nullptr;
  status.permissions = node.permissions;
  status.user = node.user;
  status.group = node.group;
  if (!status.directory) {
    status.size = kFileBytes;
    return status;
  }
  status.links = 2;
  for (const auto& [name, number] : node.children) {
    if (nodes_.at(number).row == nullptr) ++status.links;
  }
  return status;
}

Inode Tree::add_node(Inode parent, std::string_view name, Disk* disk, const Attribute* row) {
  const Inode inode = next_++;
  Node node;
  node.parent = parent;
  node.name = name;
  node.row = row;
  node.disk = disk;
  node.permissions = row == nullptr ? kDirectoryMode : row->mode;
  nodes_.emplace(inode, std::move(node));
  if (parent != 0) nodes_.at(parent).children.emplace(name, inode);
  return inode;
}

void Tree::add_directories(Inode parent, Disk& disk, std::span<const DirectoryTable> directories) {
  const Inode top = add_node(parent, disk.name, &disk, nullptr);
  for (const DirectoryTable& table : directories) {
    if (table.path.empty()) {
      for (const Attribute& row : table.files) add_node(top, row.name, &disk, &row);
      continue;
    }
    const auto [above, name] = split_last(table.path);
    const unsigned copies = table.per_worker ? disk.queue->workers() : 1;
    for (unsigned copy = 0; copy < copies; ++copy) {
      const std::string number = table.per_worker ? std::to_string(copy) : std::string();
      const Inode directory =
          add_node(walk(top, above), std::string(name) + number, &disk, nullptr);
      for (const Attribute& row : table.files) {
        nodes_.at(add_node(directory, row.name, &disk, &row)).worker = copy;
      }
    }
  }
}

void Tree::remove_node(Inode inode) {
  const Node node = std::move(nodes_.at(inode));
  nodes_.erase(inode);
  for (const auto& [name, number] : node.children) remove_node(number);
  if (const auto parent = nodes_.find(node.parent); parent != nodes_.end()) {
    parent->second.children.erase(node.name);
  }
}

}  // namespace elevd::sysfs
