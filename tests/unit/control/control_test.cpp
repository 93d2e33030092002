// SPDX-License-Identifier: Apache-2.0
// Control on a real mount: docs/spec/sysfs.md section 1 by system calls, and stores that wait.
#include "daemon/control.hpp"

#include <dirent.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <ostream>
#include <sstream>
#include <thread>
#include <vector>

#include "daemon/descriptor.hpp"
#include "daemon/mounts.hpp"
#include "sched/request_queue.hpp"

namespace elevd::daemon {
namespace {

constexpr auto kLimit = std::chrono::seconds(20);

/// Keeps the changes it is given until the test takes them.
class HoldingRunner final : public ChangeRunner {
 public:
  struct Held {
    std::string disk;
    sysfs::Change change;
    std::unique_ptr<PendingStore> store;
  };

  void run(const std::string& disk, sysfs::Change change,
           std::unique_ptr<PendingStore> store) override {
    if (at_once) {
      store->finish(change.apply());
      return;
    }
    const std::lock_guard guard(mutex_);
    held_.push_back({disk, std::move(change), std::move(store)});
    arrived_.notify_all();
  }

  /// The next change, in order of arrival.
  Held take() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kLimit, [this] { return !held_.empty(); })) {
      at_once = true;  // so that nobody is left waiting
      FAIL("no change arrived");
    }
    Held first = std::move(held_.front());
    held_.pop_front();
    return first;
  }

  std::atomic<bool> at_once{true};

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Held> held_;
};

/// One disk on a mount of its own.
class Mounted {
 public:
  Mounted() {
    char name[] = "/tmp/elevd-control-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    root = name;
    disk.name = "disk0";
    disk.queue = &queue;
    disk.now = [] { return sched::Instant{}; };
    disk.sectors = 2097152;
    REQUIRE(tree.add_disk(disk) == 0);
    auto started = Control::start(root, tree, runner, [this] { gone.set_value(); });
    if (!started) FAIL(started.error().what);
    control = std::move(*started);
  }
  ~Mounted() {
    control.reset();
    umount2(root.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
    CHECK(rmdir(root.c_str()) == 0);
  }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  [[nodiscard]] std::string queue_file(const std::string& name) const {
    return root + "/block/disk0/queue/" + name;
  }

  std::string root;
  sched::RequestQueue queue{sched::RequestQueue::Options{}};
  sysfs::Disk disk;
  sysfs::Tree tree;
  HoldingRunner runner;
  std::promise<void> gone;
  std::unique_ptr<Control> control;
};

/// The errno of a call that returns -1, else 0.
template <class T>
int error_of(T result) {
  return result == T{-1} ? errno : 0;
}

int open_error(const std::string& path, int flags) {
  const Descriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  return file ? 0 : errno;
}

Descriptor open_file(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC));
  CAPTURE(path);
  REQUIRE(static_cast<bool>(file));
  return file;
}

std::string contents(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return "errno " + std::to_string(errno);
  char buffer[8192];
  const ssize_t size = ::read(file.get(), buffer, sizeof(buffer));
  return size < 0 ? "errno " + std::to_string(errno)
                  : std::string(buffer, static_cast<std::size_t>(size));
}

/// What `echo -n TEXT > path` does: bytes written, or minus the errno.
ssize_t echo(const std::string& path, std::string_view text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0644));
  if (!file) return -errno;
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  return written < 0 ? -errno : written;
}

bool finished(std::future<ssize_t>& future) {
  return future.wait_for(kLimit) == std::future_status::ready;
}

/// A thread that does one echo, and can be sent a signal that interrupts system calls.
class Writer {
 public:
  Writer(const std::string& path, const std::string& text) {
    std::promise<ssize_t> promise;
    result_ = promise.get_future();
    thread_ =
        std::thread([path, text](std::promise<ssize_t> done) { done.set_value(echo(path, text)); },
                    std::move(promise));
  }
  ~Writer() { thread_.join(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void interrupt() { pthread_kill(thread_.native_handle(), SIGUSR1); }
  [[nodiscard]] bool running() {
    return result_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  }
  [[nodiscard]] ssize_t result() {
    REQUIRE(finished(result_));
    return result_.get();
  }

 private:
  std::future<ssize_t> result_;
  std::thread thread_;
};

TEST_SUITE("control") {
  TEST_CASE("the mount says who it is") {
    const Mounted mounted;
    const auto mounts = read_mounts();
    REQUIRE(mounts.has_value());
    const Mount* mount = find_mount_at(*mounts, mounted.root);
    REQUIRE(mount != nullptr);
    CHECK(mount->type == "fuse.elevd");
    CHECK(mount->source == "elevd");
  }

  TEST_CASE("stat shows what files of sysfs show") {
    const Mounted mounted;
    struct stat status {};
    REQUIRE(stat(mounted.queue_file("nr_requests").c_str(), &status) == 0);
    CHECK(status.st_mode == (S_IFREG | 0644));
    CHECK(status.st_size == 4096);
    CHECK(status.st_blocks == 0);
    CHECK(status.st_blksize == 4096);
    CHECK(status.st_nlink == 1);
    CHECK(status.st_uid == geteuid());
    REQUIRE(stat(mounted.queue_file("max_segments").c_str(), &status) == 0);
    CHECK(status.st_mode == (S_IFREG | 0444));
    REQUIRE(stat((mounted.root + "/block/disk0/queue").c_str(), &status) == 0);
    CHECK(status.st_mode == (S_IFDIR | 0755));
    CHECK(status.st_size == 0);
  }

  TEST_CASE("a directory lists its entries, and again after a rewind") {
    const Mounted mounted;
    DIR* const directory = opendir((mounted.root + "/block/disk0").c_str());
    REQUIRE(directory != nullptr);
    std::vector<std::string> names;
    while (const dirent* entry = readdir(directory)) names.emplace_back(entry->d_name);
    CHECK(std::count(names.begin(), names.end(), "queue") == 1);
    CHECK(std::count(names.begin(), names.end(), "stat") == 1);
    rewinddir(directory);
    std::size_t again = 0;
    while (readdir(directory) != nullptr) ++again;
    closedir(directory);
    CHECK(again == names.size());
  }

  TEST_CASE("a file that cannot be written is EACCES for root too") {
    const Mounted mounted;
    const std::string path = mounted.queue_file("max_segments");
    CHECK(open_error(path, O_RDONLY) == 0);
    for (const int flags : {O_WRONLY, O_RDWR, O_WRONLY | O_TRUNC, O_WRONLY | O_CREAT}) {
      CAPTURE(flags);
      CHECK(open_error(path, flags) == EACCES);
    }
    REQUIRE(chmod(path.c_str(), 0644) == 0);
    CHECK(open_error(path, O_WRONLY) == EACCES);
  }

  TEST_CASE("O_TRUNC, O_APPEND and truncate are taken and change nothing") {
    const Mounted mounted;
    const std::string path = mounted.queue_file("nomerges");
    CHECK(open_error(path, O_WRONLY | O_TRUNC) == 0);
    CHECK(truncate(path.c_str(), 0) == 0);
    CHECK(truncate(path.c_str(), 100) == 0);
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK(status.st_size == 4096);
    CHECK(contents(path) == "0\n");
    const Descriptor file = open_file(path, O_WRONLY | O_APPEND);
    CHECK(::write(file.get(), "2", 1) == 1);
    CHECK(::write(file.get(), "1", 1) == 1);
    CHECK(contents(path) == "1\n");
  }

  TEST_CASE("the shape of the tree cannot be changed") {
    const Mounted mounted;
    const std::string file = mounted.queue_file("nomerges");
    const std::string fresh = mounted.queue_file("fresh");
    CHECK(open_error(fresh, O_WRONLY | O_CREAT) == EACCES);
    CHECK(error_of(mkdir(fresh.c_str(), 0755)) == EPERM);
    CHECK(error_of(mknod(fresh.c_str(), S_IFREG | 0644, 0)) == EPERM);
    CHECK(error_of(unlink(file.c_str())) == EPERM);
    CHECK(error_of(rmdir((mounted.root + "/block/disk0/queue").c_str())) == EPERM);
    CHECK(error_of(rename(file.c_str(), fresh.c_str())) == EPERM);
    CHECK(error_of(symlink("nomerges", fresh.c_str())) == EPERM);
    CHECK(error_of(link(file.c_str(), fresh.c_str())) == EPERM);
    CHECK(open_error(fresh, O_RDONLY) == ENOENT);
  }

  TEST_CASE("chmod is kept, extended attributes are not supported") {
    const Mounted mounted;
    const std::string path = mounted.queue_file("nomerges");
    REQUIRE(chmod(path.c_str(), 0600) == 0);
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK(status.st_mode == (S_IFREG | 0600));
    CHECK(error_of(setxattr(path.c_str(), "user.a", "b", 1, 0)) == ENOTSUP);
  }

  TEST_CASE("an open file reads one text, afresh from offset 0") {
    const Mounted mounted;
    const std::string path = mounted.queue_file("scheduler");
    const Descriptor file = open_file(path, O_RDONLY);
    char buffer[64];
    REQUIRE(::read(file.get(), buffer, 3) == 3);
    CHECK(std::string_view(buffer, 3) == "[no");
    const ssize_t rest = ::read(file.get(), buffer, sizeof(buffer));
    REQUIRE(rest > 0);
    CHECK(std::string_view(buffer, static_cast<std::size_t>(rest)) ==
          "ne] mq-deadline kyber bfq \n");
    CHECK(::read(file.get(), buffer, sizeof(buffer)) == 0);
    CHECK(::pread(file.get(), buffer, sizeof(buffer), 5000) == 0);

    const Descriptor merges = open_file(mounted.queue_file("nomerges"), O_RDONLY);
    REQUIRE(::pread(merges.get(), buffer, 1, 0) == 1);
    REQUIRE(echo(mounted.queue_file("nomerges"), "2") == 1);
    REQUIRE(::pread(merges.get(), buffer, 1, 1) == 1);
    CHECK(buffer[0] == '\n');
    REQUIRE(lseek(merges.get(), 0, SEEK_SET) == 0);
    REQUIRE(::read(merges.get(), buffer, 1) == 1);
    CHECK(buffer[0] == '2');
  }

  TEST_CASE("every write is one store, wherever it is written") {
    const Mounted mounted;
    const std::string path = mounted.queue_file("nr_requests");
    const Descriptor file = open_file(path, O_RDWR);
    CHECK(::pwrite(file.get(), "77\n", 3, 3) == 3);
    CHECK(contents(path) == "77\n");
    CHECK(::pwrite(file.get(), "78", 2, 1 << 20) == 2);
    CHECK(contents(path) == "78\n");

    const Descriptor bytes = open_file(path, O_WRONLY);
    CHECK(::write(bytes.get(), "6", 1) == 1);
    CHECK(contents(path) == "6\n");
    CHECK(::write(bytes.get(), "4", 1) == 1);
    CHECK(contents(path) == "4\n");
    CHECK(error_of(::write(bytes.get(), "\n", 1)) == EINVAL);
    CHECK(contents(path) == "4\n");

    char digits[] = "12";
    std::vector<iovec> parts{{digits, 1}, {digits + 1, 1}};
    CHECK(::writev(bytes.get(), parts.data(), 2) == 2);
    CHECK(contents(path) == "12\n");
    std::vector<iovec> many(99, iovec{digits, 0});
    many.push_back({digits, 1});
    std::string zeros(100, '0');
    for (std::size_t i = 0; i < 99; ++i) many[i] = {zeros.data() + i, 1};
    CHECK(::writev(bytes.get(), many.data(), 100) == 100);
    CHECK(contents(path) == "4\n");  // 00...01
  }

  TEST_CASE("a write of nothing does nothing") {
    const Mounted mounted;
    CHECK(echo(mounted.queue_file("nr_requests"), "") == 0);
    CHECK(contents(mounted.queue_file("nr_requests")) == "128\n");
  }

  TEST_CASE("of a long write 4096 bytes are passed and counted") {
    const Mounted mounted;
    const std::string path = mounted.queue_file("write_cache");
    const std::string text = "write through" + std::string(9000, 'x');
    CHECK(echo(path, text) == 4096);
    CHECK(contents(path) == "write through\n");
    CHECK(echo(path, "none" + std::string(3 << 20, 'x')) == 4096);
    CHECK(echo(mounted.queue_file("nr_requests"), std::string(5000, '0')) == 4096);
    CHECK(contents(mounted.queue_file("nr_requests")) == "4\n");
  }

  TEST_CASE("a NUL ends the text, the whole length is returned") {
    const Mounted mounted;
    using namespace std::string_view_literals;
    CHECK(echo(mounted.queue_file("nomerges"), "2\0junk"sv) == 6);
    CHECK(contents(mounted.queue_file("nomerges")) == "2\n");
    CHECK(echo(mounted.queue_file("scheduler"), "none\0junk"sv) == 9);
    CHECK(echo(mounted.queue_file("nomerges"), "\0"sv) == -EINVAL);
  }

  TEST_CASE("a refused store changes nothing and says why") {
    const Mounted mounted;
    CHECK(echo(mounted.queue_file("nr_requests"), "129\n") == -EINVAL);
    CHECK(echo(mounted.queue_file("scheduler"), "cfq\n") == -EINVAL);
    CHECK(echo(mounted.root + "/block/disk0/events_poll_msecs", "5\n") == -ENODEV);
    CHECK(contents(mounted.queue_file("nr_requests")) == "128\n");
  }

  TEST_CASE("files of a disk that was removed are ENODEV, its paths ENOENT") {
    Mounted mounted;
    const Descriptor file = open_file(mounted.queue_file("nomerges"), O_RDWR);
    char byte = 0;
    CHECK(::pread(file.get(), &byte, 1, 0) == 1);
    mounted.tree.remove_disk("disk0");
    CHECK(error_of(::pread(file.get(), &byte, 1, 0)) == ENODEV);
    CHECK(error_of(::write(file.get(), "1", 1)) == ENODEV);
    CHECK(open_error(mounted.queue_file("nomerges"), O_RDONLY) == ENOENT);
    REQUIRE(mounted.tree.add_disk(mounted.disk) == 0);
    CHECK(contents(mounted.queue_file("nomerges")) == "0\n");
    CHECK(error_of(::write(file.get(), "1", 1)) == ENODEV);
  }

  TEST_CASE("a directory that comes and goes is seen at once") {
    static constexpr sysfs::Attribute rows[] = {sysfs::constant("fifo_batch", "16\n")};
    Mounted mounted;
    const std::string path = mounted.queue_file("iosched/fifo_batch");
    CHECK(open_error(path, O_RDONLY) == ENOENT);
    REQUIRE(mounted.tree.set_directory("disk0", "queue/iosched", rows) == 0);
    CHECK(contents(path) == "16\n");
    REQUIRE(mounted.tree.set_directory("disk0", "queue/iosched", {}) == 0);
    CHECK(open_error(path, O_RDONLY) == ENOENT);
  }
}

TEST_SUITE("control: stores that wait") {
  TEST_CASE("the writer waits for the change, everything else works meanwhile") {
    Mounted mounted;
    mounted.runner.at_once = false;
    Writer writer(mounted.queue_file("nr_requests"), "64\n");
    HoldingRunner::Held held = mounted.runner.take();
    CHECK(held.disk == "disk0");
    CHECK(held.change.kind == sysfs::ChangeKind::depth);
    CHECK(writer.running());
    CHECK(contents(mounted.queue_file("nr_requests")) == "128\n");
    CHECK(contents(mounted.queue_file("scheduler")) == "[none] mq-deadline kyber bfq \n");
    CHECK(echo(mounted.queue_file("nomerges"), "1") == 1);
    CHECK_FALSE(held.store->interrupted());
    held.store->finish(held.change.apply());
    CHECK(writer.result() == 3);
    CHECK(contents(mounted.queue_file("nr_requests")) == "64\n");
    held.store->finish(EBUSY);  // only the first counts
  }

  TEST_CASE("the errno of a change reaches the writer") {
    Mounted mounted;
    mounted.runner.at_once = false;
    Writer writer(mounted.queue_file("nr_requests"), "64\n");
    mounted.runner.take().store->finish(EBUSY);
    CHECK(writer.result() == -EBUSY);
  }

  TEST_CASE("a store that is dropped is an I/O error") {
    Mounted mounted;
    mounted.runner.at_once = false;
    Writer writer(mounted.queue_file("nr_requests"), "64\n");
    mounted.runner.take().store.reset();
    CHECK(writer.result() == -EIO);
  }

  TEST_CASE("a second writer of the same file reaches the runner while the first waits") {
    Mounted mounted;
    mounted.runner.at_once = false;
    const std::string path = mounted.queue_file("nr_requests");
    // Destroyed in the reverse order: the stores are answered before their writers are joined.
    std::unique_ptr<Writer> first;
    std::unique_ptr<Writer> second;
    std::unique_ptr<Writer> third;
    first = std::make_unique<Writer>(path, "64\n");
    HoldingRunner::Held held_first = mounted.runner.take();
    second = std::make_unique<Writer>(path, "32\n");
    HoldingRunner::Held held_second = mounted.runner.take();
    third = std::make_unique<Writer>(path, "16\n");
    HoldingRunner::Held held_third = mounted.runner.take();
    held_third.store->finish(EBUSY);
    CHECK(third->result() == -EBUSY);
    held_second.store->finish(EBUSY);
    CHECK(second->result() == -EBUSY);
    CHECK(first->running());
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK(status.st_size == 4096);
    held_first.store->finish(held_first.change.apply());
    CHECK(first->result() == 3);
    mounted.runner.at_once = true;
    CHECK(echo(path, "8") == 1);
    CHECK(contents(path) == "8\n");
  }

  TEST_CASE("a signal asks the change to be cancelled, and the answer ends the write") {
    Mounted mounted;
    mounted.runner.at_once = false;
    Writer writer(mounted.queue_file("nr_requests"), "64\n");
    HoldingRunner::Held held = mounted.runner.take();
    auto asked = std::make_shared<std::promise<void>>();
    std::future<void> asked_future = asked->get_future();
    held.store->on_interrupt([asked] { asked->set_value(); });
    writer.interrupt();
    REQUIRE(asked_future.wait_for(kLimit) == std::future_status::ready);
    CHECK(held.store->interrupted());
    CHECK(writer.running());
    held.store->finish(EINTR);
    CHECK(writer.result() == -EINTR);
    CHECK(contents(mounted.queue_file("nr_requests")) == "128\n");
  }

  TEST_CASE("the callback may answer by itself, and one that comes late is called at once") {
    Mounted mounted;
    mounted.runner.at_once = false;
    Writer writer(mounted.queue_file("nr_requests"), "64\n");
    const std::shared_ptr<PendingStore> store = mounted.runner.take().store;
    std::promise<void> asked;
    store->on_interrupt([&asked] { asked.set_value(); });
    writer.interrupt();
    REQUIRE(asked.get_future().wait_for(kLimit) == std::future_status::ready);
    store->on_interrupt([&store] { store->finish(EINTR); });
    CHECK(writer.result() == -EINTR);

    Writer other(mounted.queue_file("nr_requests"), "64\n");
    const std::shared_ptr<PendingStore> second = mounted.runner.take().store;
    second->on_interrupt([&second] { second->finish(EINTR); });
    other.interrupt();
    CHECK(other.result() == -EINTR);
  }

  TEST_CASE("answers that race with interrupts come once") {
    Mounted mounted;
    mounted.runner.at_once = false;
    for (int i = 0; i < 200; ++i) {
      Writer writer(mounted.queue_file("nr_requests"), "64\n");
      HoldingRunner::Held held = mounted.runner.take();
      const auto store = std::make_shared<std::unique_ptr<PendingStore>>(std::move(held.store));
      (*store)->on_interrupt([store] { (*store)->finish(EINTR); });
      std::thread answering([store] { (*store)->finish(EBUSY); });
      writer.interrupt();
      const ssize_t result = writer.result();
      CHECK((result == -EBUSY || result == -EINTR));
      answering.join();
      (*store)->on_interrupt(nullptr);
    }
  }

  TEST_CASE("stopping ends waiting writers with EINTR") {
    Mounted mounted;
    mounted.runner.at_once = false;
    Writer writer(mounted.queue_file("nr_requests"), "64\n");
    HoldingRunner::Held held = mounted.runner.take();
    mounted.control->stop();
    CHECK(writer.result() == -EINTR);
    held.store->finish(0);  // too late, and harmless
    CHECK_FALSE(find_mount_at(*read_mounts(), mounted.root) != nullptr);
  }
}

TEST_SUITE("control: life") {
  TEST_CASE("stop takes a mount away that is in use") {
    Mounted mounted;
    const Descriptor file = open_file(mounted.queue_file("nomerges"), O_RDONLY);
    mounted.control->stop();
    mounted.control->stop();
    CHECK(find_mount_at(*read_mounts(), mounted.root) == nullptr);
    char byte = 0;
    CHECK(error_of(::pread(file.get(), &byte, 1, 0)) == ENOTCONN);
  }

  TEST_CASE("unmounting by hand is noticed") {
    Mounted mounted;
    REQUIRE(unmount(mounted.root, false) == 0);
    CHECK(mounted.gone.get_future().wait_for(kLimit) == std::future_status::ready);
    mounted.control->stop();
  }

  TEST_CASE("a mount that fails is an error that names the place") {
    sysfs::Tree tree;
    HoldingRunner runner;
    const auto started = Control::start("/nonexistent/place", tree, runner, nullptr);
    REQUIRE_FALSE(started.has_value());
    CHECK(started.error().exit_status == kExitDirectory);
    CHECK(started.error().what.find("/nonexistent/place") != std::string::npos);
    CHECK(started.error().what.find('\n') == std::string::npos);
  }

  TEST_CASE("many readers and writers while disks come and go") {
    Mounted mounted;
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        while (!stop) {
          (void)contents(mounted.queue_file("scheduler"));
          (void)echo(mounted.queue_file("nr_requests"), i == 0 ? "64" : "32");
        }
      });
    }
    for (int i = 0; i < 200; ++i) {
      mounted.tree.remove_disk("disk0");
      REQUIRE(mounted.tree.add_disk(mounted.disk) == 0);
      (void)contents(mounted.queue_file("nr_requests"));
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    CHECK(echo(mounted.queue_file("nr_requests"), "16") == 2);
    CHECK(contents(mounted.queue_file("nr_requests")) == "16\n");
  }
}

}  // namespace
}  // namespace elevd::daemon

int main(int argc, char** argv) {
  if (access("/dev/fuse", R_OK | W_OK) != 0) {
    std::puts("skipped: /dev/fuse cannot be used");
    return 77;
  }
  // Interrupts system calls instead of restarting them.
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, nullptr);
  return doctest::Context(argc, argv).run();
}
