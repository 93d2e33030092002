// SPDX-License-Identifier: Apache-2.0
#include "control.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <list>
#include <mutex>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/descriptor.hpp"
#include "daemon/fuse_log.hpp"
#include "daemon/log.hpp"
#include "daemon/session_arguments.hpp"
#include "sysfs/file_rules.hpp"

namespace elevd::daemon {
namespace {

/// Kernel inodes above this are second names of a node (invariant 3); those of the tree are below.
constexpr fuse_ino_t kFirstAlias = fuse_ino_t{1} << 48;

/// The answer that a store is owed. Kept alive by the control thread as long as libfuse may call
/// `interrupt`, which it does on that thread only.
class OwedAnswer {
 public:
  OwedAnswer(fuse_req_t request, std::size_t count) : request_(request), count_(count) {}

  void finish(int error) {
    const std::lock_guard guard(mutex_);
    if (request_ == nullptr) return;
    // Fails when the connection is gone or the caller was killed: nobody is left to be told.
    if (error == 0) {
      fuse_reply_write(request_, count_);
    } else {
      fuse_reply_err(request_, error);
    }
    request_ = nullptr;
    callback_ = nullptr;
  }

  /// Runs the callback without the lock: it may call finish().
  void interrupt() {
    std::function<void()> callback;
    {
      const std::lock_guard guard(mutex_);
      interrupted_ = true;
      callback = std::exchange(callback_, nullptr);
    }
    if (callback) callback();
  }

  void on_interrupt(std::function<void()> callback) {
    {
      const std::lock_guard guard(mutex_);
      if (request_ == nullptr) return;
      if (!interrupted_) {
        callback_ = std::move(callback);
        return;
      }
    }
    callback();
  }

  [[nodiscard]] bool interrupted() const {
    const std::lock_guard guard(mutex_);
    return interrupted_;
  }

  [[nodiscard]] bool answered() const {
    const std::lock_guard guard(mutex_);
    return request_ == nullptr;
  }

 private:
  mutable std::mutex mutex_;
  fuse_req_t request_;  // null: answered
  const std::size_t count_;
  bool interrupted_ = false;
  std::function<void()> callback_;
};

class FuseStore final : public PendingStore {
 public:
  explicit FuseStore(std::shared_ptr<OwedAnswer> answer) : answer_(std::move(answer)) {}
  ~FuseStore() override { answer_->finish(EIO); }
  FuseStore(const FuseStore&) = delete;
  FuseStore& operator=(const FuseStore&) = delete;

  void finish(int error) override { answer_->finish(error); }
  [[nodiscard]] bool interrupted() const override { return answer_->interrupted(); }
  void on_interrupt(std::function<void()> callback) override {
    answer_->on_interrupt(std::move(callback));
  }

 private:
  std::shared_ptr<OwedAnswer> answer_;
};

struct OpenFile {
  sysfs::Inode inode = 0;
  sysfs::Snapshot snapshot;
};

struct OpenDirectory {
  sysfs::Inode inode = 0;
  std::vector<sysfs::Entry> entries;
};

struct SessionDeleter {
  void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};

}  // namespace

class Control::Connection {
 public:
  Connection(sysfs::Tree& tree, ChangeRunner& runner, std::function<void()> on_gone, Errand errand)
      : tree_(tree), runner_(runner), on_gone_(std::move(on_gone)), errand_(std::move(errand)) {
    clock_gettime(CLOCK_REALTIME, &mounted_at_);
  }

  Result<void> mount(const std::string& mount_point);
  void start_thread();
  void stop();

  // The operations; each answers its request. Control thread.
  void lookup(fuse_req_t request, fuse_ino_t parent, const char* name);
  void forget(fuse_ino_t node, std::uint64_t lookups);
  void get_attributes(fuse_req_t request, fuse_ino_t node);
  void set_attributes(fuse_req_t request, fuse_ino_t node, const struct stat& wanted, int valid);
  void open(fuse_req_t request, fuse_ino_t node, int flags);
  void read(fuse_req_t request, std::size_t size, off_t offset, std::uint64_t handle);
  void write(fuse_req_t request, fuse_ino_t node, std::string_view written, std::uint64_t handle);
  void release(fuse_req_t request, std::uint64_t handle);
  void open_directory(fuse_req_t request, fuse_ino_t node, fuse_file_info& info);
  void read_directory(fuse_req_t request, std::size_t size, off_t offset, std::uint64_t handle);
  void release_directory(fuse_req_t request, std::uint64_t handle);

 private:
  struct Alias {
    sysfs::Inode inode = 0;
    std::uint64_t lookups = 0;
  };
  struct Pending {
    fuse_ino_t node = 0;
    std::shared_ptr<OwedAnswer> answer;
  };

  void serve();
  [[nodiscard]] bool wait_for_request();
  [[nodiscard]] sysfs::Inode resolve(fuse_ino_t node) const;
  [[nodiscard]] fuse_ino_t node_for(sysfs::Inode inode);
  [[nodiscard]] struct stat to_stat(const sysfs::NodeStatus& status) const;
  void drop_answered();

  sysfs::Tree& tree_;
  ChangeRunner& runner_;
  std::function<void()> on_gone_;
  Errand errand_;
  timespec mounted_at_{};
  std::unique_ptr<fuse_session, SessionDeleter> session_;
  Descriptor stop_event_;
  std::thread thread_;

  // Of the control thread; of stop() when that has ended.
  std::unordered_map<std::uint64_t, OpenFile> files_;
  std::unordered_map<std::uint64_t, OpenDirectory> directories_;
  std::uint64_t next_handle_ = 1;
  std::unordered_map<fuse_ino_t, Alias> aliases_;
  std::unordered_map<sysfs::Inode, fuse_ino_t> newest_alias_;
  fuse_ino_t next_alias_ = kFirstAlias;
  std::list<Pending> pending_;
};

// --- operations ----------------------------------------------------------------------------------

sysfs::Inode Control::Connection::resolve(fuse_ino_t node) const {
  if (node < kFirstAlias) return node;
  const auto it = aliases_.find(node);
  return it == aliases_.end() ? 0 : it->second.inode;
}

void Control::Connection::drop_answered() {
  pending_.remove_if([](const Pending& pending) { return pending.answer->answered(); });
}

/// The kernel inode to answer a lookup with: the latest one of the node, or a new one when a store
/// to that is unanswered.
fuse_ino_t Control::Connection::node_for(sysfs::Inode inode) {
  drop_answered();
  const auto newest = newest_alias_.find(inode);
  fuse_ino_t node = newest == newest_alias_.end() ? inode : newest->second;
  const bool busy = std::any_of(pending_.begin(), pending_.end(),
                                [node](const Pending& pending) { return pending.node == node; });
  if (busy) {
    node = next_alias_++;
    newest_alias_[inode] = node;
    aliases_[node].inode = inode;
  }
  if (node >= kFirstAlias) ++aliases_.at(node).lookups;
  return node;
}

struct stat Control::Connection::to_stat(const sysfs::NodeStatus& status) const {
  struct stat result {};
  result.st_ino = status.inode;
  result.st_mode = (status.directory ? S_IFDIR : S_IFREG) | status.permissions;
  result.st_nlink = status.links;
  result.st_uid = status.user.value_or(geteuid());
  result.st_gid = status.group.value_or(getegid());
  result.st_size = static_cast<off_t>(status.size);
  result.st_blksize = sysfs::kFileBytes;
  result.st_atim = result.st_mtim = result.st_ctim = mounted_at_;
  return result;
}

void Control::Connection::lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const auto status = tree_.lookup(resolve(parent), name);
  if (!status) {
    fuse_reply_err(request, status.error());
    return;
  }
  fuse_entry_param entry{};
  entry.ino = node_for(status->inode);
  entry.attr = to_stat(*status);
  if (fuse_reply_entry(request, &entry) != 0) forget(entry.ino, 1);
}

void Control::Connection::forget(fuse_ino_t node, std::uint64_t lookups) {
  const auto it = aliases_.find(node);
  if (it == aliases_.end()) return;
  it->second.lookups -= std::min(lookups, it->second.lookups);
  if (it->second.lookups != 0) return;
  const auto newest = newest_alias_.find(it->second.inode);
  if (newest != newest_alias_.end() && newest->second == node) newest_alias_.erase(newest);
  aliases_.erase(it);
}

void Control::Connection::get_attributes(fuse_req_t request, fuse_ino_t node) {
  const auto status = tree_.status(resolve(node));
  if (!status) {
    fuse_reply_err(request, status.error());
    return;
  }
  const struct stat attributes = to_stat(*status);
  fuse_reply_attr(request, &attributes, 0);
}

/// Size and times are taken and mean nothing.
void Control::Connection::set_attributes(fuse_req_t request, fuse_ino_t node,
                                         const struct stat& wanted, int valid) {
  const sysfs::Inode inode = resolve(node);
  int error = 0;
  if ((valid & FUSE_SET_ATTR_MODE) != 0) error = tree_.set_permissions(inode, wanted.st_mode);
  if (error == 0 && (valid & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
    std::optional<std::uint32_t> user;
    std::optional<std::uint32_t> group;
    if ((valid & FUSE_SET_ATTR_UID) != 0) user = wanted.st_uid;
    if ((valid & FUSE_SET_ATTR_GID) != 0) group = wanted.st_gid;
    error = tree_.set_owner(inode, user, group);
  }
  if (error != 0) {
    fuse_reply_err(request, error);
    return;
  }
  get_attributes(request, node);
}

void Control::Connection::open(fuse_req_t request, fuse_ino_t node, int flags) {
  const sysfs::Inode inode = resolve(node);
  const int access = flags & O_ACCMODE;
  const int error = tree_.check_open(inode, access != O_WRONLY, access != O_RDONLY);
  if (error != 0) {
    fuse_reply_err(request, error);
    return;
  }
  const std::uint64_t handle = next_handle_++;
  files_[handle].inode = inode;
  // By hand: libfuse 3.14 has no field for parallel writes (docs/spec/fuse.md section 6).
  fuse_open_out out{};
  out.fh = handle;
  out.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES | FOPEN_NOFLUSH;
  if (fuse_reply_buf(request, reinterpret_cast<const char*>(&out), sizeof(out)) != 0) {
    files_.erase(handle);
  }
}

void Control::Connection::read(fuse_req_t request, std::size_t size, off_t offset,
                               std::uint64_t handle) {
  OpenFile& file = files_.at(handle);
  const auto bytes = file.snapshot.read(static_cast<std::uint64_t>(offset), size,
                                        [&] { return tree_.show(file.inode); });
  if (!bytes) {
    fuse_reply_err(request, bytes.error());
    return;
  }
  fuse_reply_buf(request, bytes->data(), bytes->size());
}

void Control::Connection::write(fuse_req_t request, fuse_ino_t node, std::string_view written,
                                std::uint64_t handle) {
  const sysfs::StoreInput input = sysfs::store_input(written);
  if (input.count == 0) {
    fuse_reply_write(request, 0);
    return;
  }
  sysfs::Outcome outcome = tree_.store(files_.at(handle).inode, input.text);
  if (const auto* refused = std::get_if<sysfs::Refused>(&outcome)) {
    fuse_reply_err(request, refused->error);
    return;
  }
  auto* const change = std::get_if<sysfs::Change>(&outcome);
  if (change == nullptr) {
    fuse_reply_write(request, input.count);
    return;
  }
  drop_answered();
  const auto answer = std::make_shared<OwedAnswer>(request, input.count);
  pending_.push_back({node, answer});
  fuse_req_interrupt_func(
      request, [](fuse_req_t, void* data) { static_cast<OwedAnswer*>(data)->interrupt(); },
      answer.get());
  const std::string disk = change->disk;
  runner_.run(disk, std::move(*change), std::make_unique<FuseStore>(answer));
}

void Control::Connection::release(fuse_req_t request, std::uint64_t handle) {
  files_.erase(handle);
  fuse_reply_err(request, 0);
}

void Control::Connection::open_directory(fuse_req_t request, fuse_ino_t node,
                                         fuse_file_info& info) {
  const std::uint64_t handle = next_handle_++;
  directories_[handle].inode = resolve(node);
  info.fh = handle;
  if (fuse_reply_open(request, &info) != 0) directories_.erase(handle);
}

/// An offset is the number of entries before it. From 0 on the directory is read afresh.
void Control::Connection::read_directory(fuse_req_t request, std::size_t size, off_t offset,
                                         std::uint64_t handle) {
  OpenDirectory& directory = directories_.at(handle);
  if (offset == 0) {
    auto entries = tree_.entries(directory.inode);
    if (!entries) {
      fuse_reply_err(request, entries.error());
      return;
    }
    directory.entries = std::move(*entries);
  }
  std::vector<char> buffer(size);
  std::size_t used = 0;
  for (auto i = static_cast<std::size_t>(offset); i < directory.entries.size(); ++i) {
    const sysfs::Entry& entry = directory.entries[i];
    struct stat attributes {};
    attributes.st_ino = entry.inode;
    attributes.st_mode = entry.directory ? S_IFDIR : S_IFREG;
    const std::size_t needed =
        fuse_add_direntry(request, buffer.data() + used, size - used, entry.name.c_str(),
                          &attributes, static_cast<off_t>(i + 1));
    if (needed > size - used) break;
    used += needed;
  }
  fuse_reply_buf(request, buffer.data(), used);
}

void Control::Connection::release_directory(fuse_req_t request, std::uint64_t handle) {
  directories_.erase(handle);
  fuse_reply_err(request, 0);
}

// --- libfuse's table -----------------------------------------------------------------------------

namespace {

/// Missing here and so answered ENOSYS: extended attributes (the kernel makes ENOTSUP of it and
/// does not ask again), flush, fsync, access.
template <class Connection>
fuse_lowlevel_ops operations() {
  static const auto self = [](fuse_req_t request) -> Connection& {
    return *static_cast<Connection*>(fuse_req_userdata(request));
  };
  fuse_lowlevel_ops ops{};
  ops.lookup = [](fuse_req_t r, fuse_ino_t parent, const char* name) {
    self(r).lookup(r, parent, name);
  };
  ops.forget = [](fuse_req_t r, fuse_ino_t node, std::uint64_t lookups) {
    self(r).forget(node, lookups);
    fuse_reply_none(r);
  };
  ops.forget_multi = [](fuse_req_t r, std::size_t count, fuse_forget_data* forgets) {
    for (const fuse_forget_data& one : std::span(forgets, count)) {
      self(r).forget(one.ino, one.nlookup);
    }
    fuse_reply_none(r);
  };
  ops.getattr = [](fuse_req_t r, fuse_ino_t node, fuse_file_info*) {
    self(r).get_attributes(r, node);
  };
  ops.setattr = [](fuse_req_t r, fuse_ino_t node, struct stat* wanted, int valid, fuse_file_info*) {
    self(r).set_attributes(r, node, *wanted, valid);
  };
  ops.open = [](fuse_req_t r, fuse_ino_t node, fuse_file_info* info) {
    self(r).open(r, node, info->flags);
  };
  ops.read = [](fuse_req_t r, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
    self(r).read(r, size, offset, info->fh);
  };
  ops.write = [](fuse_req_t r, fuse_ino_t node, const char* data, std::size_t size, off_t,
                 fuse_file_info* info) {
    self(r).write(r, node, {data, size}, info->fh);
  };
  ops.release = [](fuse_req_t r, fuse_ino_t, fuse_file_info* info) {
    self(r).release(r, info->fh);
  };
  ops.opendir = [](fuse_req_t r, fuse_ino_t node, fuse_file_info* info) {
    self(r).open_directory(r, node, *info);
  };
  ops.readdir = [](fuse_req_t r, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
    self(r).read_directory(r, size, offset, info->fh);
  };
  ops.releasedir = [](fuse_req_t r, fuse_ino_t, fuse_file_info* info) {
    self(r).release_directory(r, info->fh);
  };
  // The shape of the tree is not the user's to change.
  ops.create = [](fuse_req_t r, fuse_ino_t, const char*, mode_t, fuse_file_info*) {
    fuse_reply_err(r, EACCES);
  };
  ops.mknod = [](fuse_req_t r, fuse_ino_t, const char*, mode_t, dev_t) {
    fuse_reply_err(r, EPERM);
  };
  ops.mkdir = [](fuse_req_t r, fuse_ino_t, const char*, mode_t) { fuse_reply_err(r, EPERM); };
  ops.unlink = [](fuse_req_t r, fuse_ino_t, const char*) { fuse_reply_err(r, EPERM); };
  ops.rmdir = [](fuse_req_t r, fuse_ino_t, const char*) { fuse_reply_err(r, EPERM); };
  ops.symlink = [](fuse_req_t r, const char*, fuse_ino_t, const char*) {
    fuse_reply_err(r, EPERM);
  };
  ops.rename = [](fuse_req_t r, fuse_ino_t, const char*, fuse_ino_t, const char*, unsigned) {
    fuse_reply_err(r, EPERM);
  };
  ops.link = [](fuse_req_t r, fuse_ino_t, fuse_ino_t, const char*) { fuse_reply_err(r, EPERM); };
  return ops;
}

}  // namespace

// --- life ----------------------------------------------------------------------------------------

Result<void> Control::Connection::mount(const std::string& mount_point) {
  const auto failed = [&mount_point](int code, std::string_view why) {
    return tl::unexpected(
        Error{code, fmt::format("cannot mount the control files on {}: {}", mount_point, why),
              kExitDirectory});
  };
  stop_event_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_event_) return failed(errno, "no descriptor left");
  FuseMessages messages;
  // The kernel checks modes and owners; what root may not do either is checked in open.
  SessionArguments arguments("default_permissions,noexec");
  static const fuse_lowlevel_ops ops = operations<Connection>();
  session_.reset(fuse_session_new(arguments.get(), &ops, sizeof(ops), this));
  if (!session_) return failed(EINVAL, messages.text());
  if (fuse_session_mount(session_.get(), mount_point.c_str()) != 0) {
    return failed(EIO, messages.text().empty() ? "fusermount3 failed" : messages.text());
  }
  // A request can be withdrawn between poll and read; the read must not wait then.
  const int fd = fuse_session_fd(session_.get());
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return {};
}

void Control::Connection::start_thread() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { serve(); });
  pthread_setname_np(thread_.native_handle(), "elevd-control");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// False: stop() was called.
bool Control::Connection::wait_for_request() {
  std::array<pollfd, 3> watched{{{fuse_session_fd(session_.get()), POLLIN, 0},
                                 {stop_event_.get(), POLLIN, 0},
                                 {errand_.descriptor, POLLIN, 0}}};
  for (;;) {
    if (poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) continue;
    if (watched[1].revents != 0) return false;
    if (watched[2].revents != 0) errand_.run();
    if (watched[0].revents != 0) return true;
  }
}

void Control::Connection::serve() {
  fuse_buf buffer{};
  while (wait_for_request()) {
    const int size = fuse_session_receive_buf(session_.get(), &buffer);
    if (size == -EINTR || size == -EAGAIN) continue;
    if (size <= 0) {
      if (size < 0) log(Level::error, "control files: reading requests: error {}", -size);
      if (on_gone_) on_gone_();
      break;
    }
    fuse_session_process_buf(session_.get(), &buffer);
  }
  std::free(buffer.mem);
}

void Control::Connection::stop() {
  if (!session_) return;
  if (thread_.joinable()) {
    eventfd_write(stop_event_.get(), 1);
    thread_.join();
  }
  // The answers refer to the session, whoever still holds a PendingStore.
  for (const Pending& pending : pending_) pending.answer->finish(EINTR);
  fuse_session_unmount(session_.get());
  session_.reset();
  pending_.clear();
}

Control::Control(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

Control::~Control() { stop(); }

Result<std::unique_ptr<Control>> Control::start(const std::string& mount_point, sysfs::Tree& tree,
                                                ChangeRunner& runner, std::function<void()> on_gone,
                                                Errand errand) {
  auto connection =
      std::make_unique<Connection>(tree, runner, std::move(on_gone), std::move(errand));
  if (auto mounted = connection->mount(mount_point); !mounted) {
    return tl::unexpected(mounted.error());
  }
  try {
    connection->start_thread();
  } catch (const std::system_error& error) {
    connection->stop();
    return tl::unexpected(Error{error.code().value(),
                                fmt::format("cannot start the control thread: {}", error.what())});
  }
  return std::unique_ptr<Control>(new Control(std::move(connection)));
}

void Control::stop() { connection_->stop(); }

}  // namespace elevd::daemon
