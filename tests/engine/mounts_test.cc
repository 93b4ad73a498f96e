#include "engine/mounts.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

namespace csidelta::engine::mounts_test {
namespace {

constexpr char kMountInfo[] =
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "31 22 7:1 / /mnt/with\\040blank rw - ext4 /dev/loop1 rw,errors=remount-ro\n"
    "32 22 7:2 / /mnt/read ro - ext4 /dev/loop2 ro\n"
    "33 22 7:3 /sub /mnt/bind ro,relatime - xfs /dev/loop3 rw\n"
    "34 22 0:44 / /mnt/btrfs rw - btrfs /dev/loop4 rw\n"
    "broken line\n";

TEST(MountsTest, WhatMayBeWrittenToMeanwhileIsSaid) {
  const auto device_of = [](const std::string& path) {
    return path == "/dev/loop4" ? makedev(7, 4) : dev_t{0};
  };
  const auto place = [&](unsigned minor) {
    return MountedForWriting(kMountInfo, makedev(7, minor), device_of);
  };
  EXPECT_EQ(place(1), "/mnt/with blank");
  EXPECT_EQ(place(2), "");
  EXPECT_EQ(place(3), "/mnt/bind");
  EXPECT_EQ(place(4), "/mnt/btrfs");
  EXPECT_EQ(place(5), "");
  EXPECT_EQ(MountedForWriting("/dev/null"), "");
}

}  // namespace
}  // namespace csidelta::engine::mounts_test
