#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

namespace csidelta::support {

// A folder that is removed, with everything in it, with this object. In the tests' temporary
// folder, or in `parent`. What lies in it, or is mounted there, ends first: a member that is
// declared after this one, or TearDown(), sees to it. A program that cannot make it is aborted.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::filesystem::path& parent = testing::TempDir())
      : path_(parent / "csi-delta-test-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) {
      const std::error_code error(errno, std::generic_category());
      std::cerr << "make scratch folder " << path_ << ": " << error.message() << std::endl;
      std::abort();
    }
    path_ = std::filesystem::canonical(path_);
  }
  ~ScratchFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    EXPECT_FALSE(error) << "remove scratch folder " << path_ << ": " << error.message();
  }

  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // Absolute, without links, without a slash at its end.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace csidelta::support
