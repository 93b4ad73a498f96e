#include "incremental/mover/process_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "tests/support/scratch_folder.h"

namespace csidelta::incremental::process_limits_test {
namespace {

using testing::Optional;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr char kNoLimit[] = "9223372036854771712\n";  // of version 1

class ProcessLimitsTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  ProcessLimits Read() const { return ReadProcessLimits(folder_.path()); }

  const support::ScratchFolder folder_;
  const int all_cores_ = ReadProcessLimits(folder_.path()).cores;  // nothing is there yet
};

TEST_F(ProcessLimitsTest, NothingToReadIsNoLimit) {
  EXPECT_EQ(Read().memory_bytes, std::nullopt);
  EXPECT_GE(Read().cores, 1);
}

// A container of Kubernetes with cgroups of version 2: a namespace of its own, limits at its root.
TEST_F(ProcessLimitsTest, VersionTwoInAContainer) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "268435456\n");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_THAT(Read().memory_bytes, Optional(256 * kMiB));
  EXPECT_EQ(Read().cores, 1);
}

TEST_F(ProcessLimitsTest, VersionTwoWithoutLimits) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "max\n");
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(Read().memory_bytes, std::nullopt);
  EXPECT_EQ(Read().cores, all_cores_);
}

TEST_F(ProcessLimitsTest, TheSmallestOfAllGroupsAboveCounts) {
  Write("/proc/self/cgroup", "0::/user.slice/job.scope\n");
  Write("/sys/fs/cgroup/user.slice/job.scope/memory.max", "1073741824\n");
  Write("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/user.slice/memory.max", "536870912\n");
  Write("/sys/fs/cgroup/user.slice/cpu.max", "100000 100000\n");
  EXPECT_THAT(Read().memory_bytes, Optional(512 * kMiB));
  EXPECT_EQ(Read().cores, 1);
  Write("/sys/fs/cgroup/user.slice/job.scope/memory.max", "268435456\n");
  EXPECT_THAT(Read().memory_bytes, Optional(256 * kMiB));
}

// Without a namespace of cgroups a container reads the host's path, and sees its own group mounted.
TEST_F(ProcessLimitsTest, APathOfTheHostIsTheMountItself) {
  for (const char* groups : {"0::/kubepods/burstable/podX/worker\n", "0::/../../podX\n"}) {
    Write("/proc/self/cgroup", groups);
    Write("/sys/fs/cgroup/memory.max", "268435456\n");
    EXPECT_THAT(Read().memory_bytes, Optional(256 * kMiB)) << groups;
  }
}

TEST_F(ProcessLimitsTest, VersionOne) {
  Write("/proc/self/cgroup",
        "9:name=systemd:/\n4:memory:/pods/worker\n2:cpu,cpuacct:/pods/worker\n0::/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", kNoLimit);
  Write("/sys/fs/cgroup/memory/pods/memory.limit_in_bytes", "536870912\n");
  Write("/sys/fs/cgroup/memory/pods/worker/memory.limit_in_bytes", "268435456\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/cpu/pods/worker/cpu.cfs_quota_us", "25000\n");
  Write("/sys/fs/cgroup/cpu/pods/worker/cpu.cfs_period_us", "100000\n");
  EXPECT_THAT(Read().memory_bytes, Optional(256 * kMiB));
  EXPECT_EQ(Read().cores, 1);
}

TEST_F(ProcessLimitsTest, VersionOneWithoutLimits) {
  Write("/proc/self/cgroup", "4:memory:/\n2:cpu:/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", kNoLimit);
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().memory_bytes, std::nullopt);
  EXPECT_EQ(Read().cores, all_cores_);
}

TEST_F(ProcessLimitsTest, ControllersOfBothVersionsCount) {
  Write("/proc/self/cgroup", "1:cpu:/\n0::/job\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/unified/job/memory.max", "268435456\n");
  EXPECT_THAT(Read().memory_bytes, Optional(256 * kMiB));
  EXPECT_EQ(Read().cores, 1);
}

TEST_F(ProcessLimitsTest, NonsenseIsNoLimit) {
  Write("/proc/self/cgroup", "nonsense\n0::/\n::\n");
  for (const char* text : {"", "many\n", "-5\n", "0\n", "99999999999999999999\n"}) {
    Write("/sys/fs/cgroup/memory.max", text);
    Write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(Read().memory_bytes, std::nullopt) << text;
    EXPECT_EQ(Read().cores, all_cores_) << text;
  }
  Write("/sys/fs/cgroup/cpu.max", "100000 0\n");
  EXPECT_EQ(Read().cores, all_cores_);
}

// As many threads as can run at some moment.
TEST_F(ProcessLimitsTest, APartOfACoreCountsAsOne) {
  Write("/proc/self/cgroup", "0::/\n");
  for (const auto& [quota, cores] :
       {std::pair("1000", 1), std::pair("100000", 1), std::pair("150000", 2)}) {
    Write("/sys/fs/cgroup/cpu.max", std::string(quota) + " 100000\n");
    EXPECT_EQ(Read().cores, std::min(cores, all_cores_)) << quota;
  }
}

TEST_F(ProcessLimitsTest, AQuotaAboveTheMachineIsTheMachine) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "900000000 100000\n");
  EXPECT_EQ(Read().cores, all_cores_);
}

TEST(BudgetWithinTest, IsTheSmallerOne) {
  const auto within = [](int64_t asked_mebibytes, std::optional<int64_t> limit_mebibytes) {
    ProcessLimits limits;
    if (limit_mebibytes.has_value()) {
      limits.memory_bytes = *limit_mebibytes * kMiB;
    }
    return BudgetWithin(asked_mebibytes * kMiB, limits);
  };
  EXPECT_EQ(within(256, std::nullopt), 256 * kMiB);
  EXPECT_EQ(within(256, 4096), 256 * kMiB);
  EXPECT_EQ(within(224, 256), 224 * kMiB);
  EXPECT_EQ(within(1024, 256), 224 * kMiB);
  EXPECT_EQ(within(96, 128), 96 * kMiB);
  // A group that is too small is no reason not to try.
  EXPECT_EQ(within(256, 64), LeastMemoryBytes(1 << 20));
  EXPECT_EQ(within(16, 64), 16 * kMiB);
}

}  // namespace
}  // namespace csidelta::incremental::process_limits_test
