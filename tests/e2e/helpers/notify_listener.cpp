// SPDX-License-Identifier: Apache-2.0
// notify_listener: the service manager's end of NOTIFY_SOCKET.
//
//   notify_listener SOCKET [PATH...]   prints each message as it comes, one line a variable; ends
//                                      at SIGTERM. Each line begins with "+" if something was
//                                      mounted at every PATH when the message was received, else
//                                      with "-".
//
// The sender goes on while a message is looked at: what is "+" at READY=1 may only just have become
// so, what is "-" was not mounted when it was sent.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

bool is_mounted(const std::string& path) {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string word;
    for (int i = 0; i < 5; ++i) words >> word;
    if (word == path) return true;
  }
  return false;
}

int listen_at(const char* path) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (fd < 0 || std::strlen(path) >= sizeof(address.sun_path)) return -1;
  std::strcpy(address.sun_path, path);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return -1;
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: notify_listener SOCKET [PATH...]\n", stderr);
    return 2;
  }
  const int fd = listen_at(argv[1]);
  if (fd < 0) {
    std::perror(argv[1]);
    return 1;
  }
  const std::vector<std::string> paths(argv + 2, argv + argc);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::array<char, 4096> message{};
  for (;;) {
    const ssize_t n = recv(fd, message.data(), message.size(), 0);
    if (n < 0) return 1;
    char mark = '+';
    for (const std::string& path : paths) {
      if (!is_mounted(path)) mark = '-';
    }
    std::istringstream lines(std::string(message.data(), static_cast<std::size_t>(n)));
    for (std::string line; std::getline(lines, line);) std::printf("%c%s\n", mark, line.c_str());
  }
}
