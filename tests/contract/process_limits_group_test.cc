// What the kernel says of cgroups that it has made. Of version 1, which is the one that names its
// controllers; fixtures stand for version 2 (tests/incremental/process_limits_test.cc).
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "incremental/mover/process_limits.h"

namespace csidelta::contract::process_limits_group_test {
namespace {

constexpr int64_t kLimitBytes = int64_t{200} << 20;

// A cgroup in one hierarchy, which is empty when this goes.
class Group {
 public:
  explicit Group(const std::string& path) : path_(path) {
    EXPECT_EQ(::mkdir(path_.c_str(), 0755), 0) << path_;
  }
  ~Group() { EXPECT_EQ(::rmdir(path_.c_str()), 0) << path_; }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool Write(const std::string& file, const std::string& text) const {
    std::ofstream out(absl::StrCat(path_, "/", file));
    out << text << std::flush;
    return out.good();
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

struct Seen {
  bool is_placed = false;
  int64_t memory_bytes = 0;
  int cores = 0;
};

// What a process in these groups reads.
Seen ReadIn(const std::vector<const Group*>& groups) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  Seen seen;
  if (child == 0) {
    seen.is_placed = true;
    for (const Group* group : groups) {
      seen.is_placed = seen.is_placed && group->Write("cgroup.procs", "0");
    }
    const incremental::ProcessLimits limits = incremental::ReadProcessLimits();
    seen.memory_bytes = limits.memory_bytes.value_or(-1);
    seen.cores = limits.cores;
    ::_exit(::write(ends[1], &seen, sizeof(seen)) == ssize_t{sizeof(seen)} ? 0 : 1);
  }
  ::close(ends[1]);
  EXPECT_EQ(::read(ends[0], &seen, sizeof(seen)), ssize_t{sizeof(seen)});
  ::close(ends[0]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  return seen;
}

TEST(ProcessLimitsGroupTest, TheKernelsLimitsAreRead) {
  const std::string name = absl::StrCat("/csi-delta-test-", ::getpid());
  const std::string memory_root = "/sys/fs/cgroup/memory";
  const std::string cpu_root = "/sys/fs/cgroup/cpu";
  if (::access((memory_root + "/memory.limit_in_bytes").c_str(), F_OK) != 0 ||
      ::access((cpu_root + "/cpu.cfs_quota_us").c_str(), F_OK) != 0) {
    GTEST_SKIP() << "no cgroups of version 1 are mounted";
  }
  const Group memory(memory_root + name);
  const Group inner(memory.path() + "/inner");
  const Group cpu(cpu_root + name);
  ASSERT_TRUE(memory.Write("memory.limit_in_bytes", absl::StrCat(kLimitBytes)));
  ASSERT_TRUE(cpu.Write("cpu.cfs_quota_us", "50000"));

  const Seen seen = ReadIn({&inner, &cpu});
  ASSERT_TRUE(seen.is_placed);
  EXPECT_EQ(seen.memory_bytes, kLimitBytes);
  EXPECT_EQ(seen.cores, 1);

  // A quota of more than a core, where there are as many.
  const int machine_cores = incremental::ReadProcessLimits().cores;
  ASSERT_TRUE(cpu.Write("cpu.cfs_quota_us", "150000"));
  EXPECT_EQ(ReadIn({&inner, &cpu}).cores, std::min(2, machine_cores));
  ASSERT_TRUE(cpu.Write("cpu.cfs_quota_us", "-1"));
  EXPECT_EQ(ReadIn({&inner, &cpu}).cores, machine_cores);
}

}  // namespace
}  // namespace csidelta::contract::process_limits_group_test
