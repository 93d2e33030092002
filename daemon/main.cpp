// SPDX-License-Identifier: Apache-2.0
// elevd: reads what it is to do, and does it.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/command_line.hpp"
#include "daemon.hpp"
#include "log.hpp"

namespace elevd::daemon {
namespace {

/// Paths below queue/ that a configuration may set, those of every scheduler among them.
std::set<std::string> writable_attributes() {
  std::set<std::string> paths;
  for (const sysfs::Attribute& row : sysfs::queue_files()) {
    if (row.store != nullptr && row.name != "scheduler") paths.emplace(row.name);
  }
  for (const sysfs::SchedulerType& type : sysfs::available_schedulers()) {
    if (type.files == nullptr) continue;
    for (const sysfs::Attribute& row : type.files()) {
      if (row.store != nullptr) paths.insert("iosched/" + std::string(row.name));
    }
  }
  return paths;
}

int refuse(const std::string& what, int status) {
  std::fprintf(stderr, "elevd: %s\n", what.c_str());
  return status;
}

void prepare_process() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

/// The child goes on; the parent waits for its word and exits with it. Before the first thread and
/// the first ring: neither survives a fork. Returns the descriptor for the word, -1 on failure.
int fork_to_background() {
  std::array<int, 2> pipe_fds{};
  if (pipe2(pipe_fds.data(), O_CLOEXEC) != 0) return -1;
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child > 0) {
    close(pipe_fds[1]);
    unsigned char status = kExitFailed;
    // Nothing read: the child died without a word.
    while (read(pipe_fds[0], &status, 1) < 0 && errno == EINTR) {
    }
    _exit(status);
  }
  close(pipe_fds[0]);
  setsid();
  return pipe_fds[1];
}

void leave_terminal() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  if (null > STDERR_FILENO) close(null);
  if (chdir("/") != 0) log(Level::debug, "cannot change to /");
}

int run(config::DaemonConfig config) {
  prepare_process();
  int word = -1;
  if (config.daemonize) {
    word = fork_to_background();
    if (word < 0) return refuse(std::string("cannot fork: ") + std::strerror(errno), kExitFailed);
  }
  const auto tell_parent = [&word](int status) {
    if (word < 0) return;
    const auto byte = static_cast<unsigned char>(status);
    [[maybe_unused]] const ssize_t n = write(word, &byte, 1);
    close(word);
    word = -1;
  };
  const bool daemonize = config.daemonize;
  auto daemon = std::make_unique<Daemon>(std::move(config));
  if (const auto started = daemon->start(); !started) {
    const int status = refuse(started.error().what, started.error().exit_status);
    daemon.reset();  // when the parent ends, everything is as before
    tell_parent(status);
    return status;
  }
  if (daemonize) {
    log_to_syslog();
    tell_parent(kExitStopped);
    leave_terminal();
  }
  return daemon->serve();
}

int main_of(int argc, char** argv) {
  const std::set<std::string> paths = writable_attributes();
  const std::vector<std::string_view> attributes(paths.begin(), paths.end());
  config::CommandLineContext context;
  context.is_root = geteuid() == 0;
  if (const char* directory = std::getenv("XDG_RUNTIME_DIR")) context.runtime_directory = directory;
  context.version = ELEVD_VERSION;
  context.attributes = attributes;
  config::CommandLine parsed = config::parse_command_line(argc, argv, context);
  if (const auto* answer = std::get_if<config::Answer>(&parsed)) {
    if (answer->status != 0) return refuse(answer->text, answer->status);
    std::fputs(answer->text.c_str(), stdout);
    return kExitStopped;
  }
  auto& config = std::get<config::DaemonConfig>(parsed);
  if (config.check_only) {
    std::puts("the configuration is valid");
    return kExitStopped;
  }
  return run(std::move(config));
}

}  // namespace
}  // namespace elevd::daemon

int main(int argc, char** argv) {
  try {
    return elevd::daemon::main_of(argc, argv);
  } catch (const std::exception& error) {
    return elevd::daemon::refuse(error.what(), elevd::daemon::kExitFailed);
  }
}
