#include "incremental/mover/file_system.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/fake_block_device.h"

namespace csidelta::incremental::file_system_test {
namespace {

using support::FakeBlockDevice;

void Put(std::string& volume, std::size_t offset, const std::string& bytes) {
  volume.replace(offset, bytes.size(), bytes);
}

// The members of ext's superblock that say which of the three it is, each of the lowest byte alone.
std::string Ext(char compatible, char incompatible, char read_only_compatible) {
  std::string volume(kFileSystemProbeBytes, '\0');
  Put(volume, 1024 + 0x38, "\x53\xef");
  volume[1024 + 0x5c] = compatible;
  volume[1024 + 0x60] = incompatible;
  volume[1024 + 0x64] = read_only_compatible;
  return volume;
}

std::string With(std::size_t offset, const std::string& magic) {
  std::string volume(kFileSystemProbeBytes, '\0');
  Put(volume, offset, magic);
  return volume;
}

TEST(FileSystemTest, EachIsKnownByItsSuperblock) {
  EXPECT_EQ(FileSystemOf(With(0, "XFSB")), "xfs");
  EXPECT_EQ(FileSystemOf(With(0x10040, "_BHRfS_M")), "btrfs");
  // As mke2fs makes them: resize_inode and dir_index; journal; extents and 64bit; huge_file.
  EXPECT_EQ(FileSystemOf(Ext(0x38, 0x02, 0x03)), "ext2");
  EXPECT_EQ(FileSystemOf(Ext(0x3c, 0x02, 0x03)), "ext3");
  EXPECT_EQ(FileSystemOf(Ext(0x3c, 0x06, 0x03)), "ext3") << "not unmounted";
  EXPECT_EQ(FileSystemOf(Ext(0x3c, 0x42, 0x03)), "ext4");
  EXPECT_EQ(FileSystemOf(Ext(0x38, 0x02, 0x0b)), "ext4") << "without a journal";
  for (const char* name : {"ext2", "ext3", "ext4", "xfs", "btrfs"}) {
    EXPECT_TRUE(IsFileSystem(name)) << name;
  }
}

TEST(FileSystemTest, AnythingElseIsNone) {
  EXPECT_EQ(FileSystemOf(""), "");
  EXPECT_EQ(FileSystemOf("XFS"), "");
  EXPECT_EQ(FileSystemOf(std::string(kFileSystemProbeBytes, '\0')), "");
  EXPECT_EQ(FileSystemOf(std::string(kFileSystemProbeBytes, '\x53')), "");
  EXPECT_EQ(FileSystemOf(Ext(0x3c, 0x42, 0x03).substr(0, 1024 + 0x66)), "") << "cut off";
  EXPECT_FALSE(IsFileSystem(""));
  EXPECT_FALSE(IsFileSystem("ext4 -o suid"));
}

// `bytes` in little-endian order.
std::string Little(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text.push_back(static_cast<char>(number >> (8 * i)));
  }
  return text;
}

TEST(FileSystemTest, ItsSizeIsThatOfItsSuperblock) {
  std::string ext = Ext(0x3c, 0x42, 0x03);
  Put(ext, 1024 + 0x4, Little(2560, 4));
  Put(ext, 1024 + 0x18, Little(2, 4));
  Put(ext, 1024 + 0x150, Little(1, 4));
  EXPECT_EQ(FileSystemBytes(ext), 2560 * 4096) << "without 64bit";
  Put(ext, 1024 + 0x60, Little(0xc2, 4));
  EXPECT_EQ(FileSystemBytes(ext), ((int64_t{1} << 32) + 2560) * 4096);
  std::string xfs = With(0, "XFSB");
  Put(xfs, 4, std::string("\0\0\x10\0\0\0\0\0\0\0\x0a\0", 12));
  EXPECT_EQ(FileSystemBytes(xfs), 2560 * 4096);
  std::string btrfs = With(0x10040, "_BHRfS_M");
  Put(btrfs, 0x100d1, Little(10 << 20, 8));
  EXPECT_EQ(FileSystemBytes(btrfs), 10 << 20);
}

TEST(FileSystemTest, AnImpossibleSizeIsNotKnown) {
  std::string ext = Ext(0x3c, 0x42, 0x03);
  Put(ext, 1024 + 0x18, Little(7, 4));
  Put(ext, 1024 + 0x4, Little(2560, 4));
  EXPECT_EQ(FileSystemBytes(ext), 0);
  EXPECT_EQ(FileSystemBytes(With(0, "XFSB" + std::string(12, '\xff'))), 0);
  EXPECT_EQ(FileSystemBytes("XFSB"), 0);
  std::string btrfs = With(0x10040, "_BHRfS_M");
  Put(btrfs, 0x100d1, std::string(8, '\xff'));
  EXPECT_EQ(FileSystemBytes(btrfs), 0);
  EXPECT_EQ(FileSystemBytes(""), 0);
}

TEST(FileSystemTest, ADeviceIsReadAtItsBeginning) {
  FakeBlockDevice device(int64_t{1} << 20);
  device.Store(0, With(0x10040, "_BHRfS_M"));
  EXPECT_EQ(FileSystemOf(*ReadBeginning({}, device)), "btrfs");
  FakeBlockDevice small(4096 + 10);
  small.Store(0, "XFSB");
  EXPECT_EQ(FileSystemOf(*ReadBeginning({}, small)), "xfs");
}

}  // namespace
}  // namespace csidelta::incremental::file_system_test
