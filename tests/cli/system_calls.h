#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace csidelta::cli {

// One call of this program to the system, below the folder that is watched.
struct SystemCall {
  const char* name;            // "fsync"
  int fd;                      // what it is about, or relative to
  std::size_t size_bytes = 0;  // of pread() and pwrite()
};

// While it lives, this program's open(), openat(), fstat(), fstatat(), readdir(), pread(),
// pwrite(), fsync(), mkdirat(), renameat2(), linkat() and unlinkat() below `root` are shown to
// `judge` first, one at a time. It returns nothing where the system is to answer, else what to
// answer instead: a result, or an error as -errno. One at a time lives.
class SystemCallWatch {
 public:
  using Judge = std::function<std::optional<int64_t>(const SystemCall& call)>;

  SystemCallWatch(std::string root, Judge judge);
  ~SystemCallWatch();
  SystemCallWatch(const SystemCallWatch&) = delete;
  SystemCallWatch& operator=(const SystemCallWatch&) = delete;
};

}  // namespace csidelta::cli
