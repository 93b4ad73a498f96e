#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/string_view.h"

namespace csidelta::support {

// A name for a file that is removed with this object. In the tests' temporary folder, or in
// `folder`.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& folder = testing::TempDir()) {
    path_ = folder + "/csi-delta-test-XXXXXX";
    const int fd = ::mkstemp(path_.data());
    EXPECT_GE(fd, 0) << path_;
    ::close(fd);
  }
  ~ScratchFile() { ::unlink(path_.c_str()); }

  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }

  void Write(absl::string_view bytes) const {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ASSERT_TRUE(file.good()) << path_;
  }

 private:
  std::string path_;
};

}  // namespace csidelta::support
