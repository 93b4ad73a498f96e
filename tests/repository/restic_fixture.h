#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "repository/checker.h"
#include "repository/lock.h"
#include "repository/repository.h"
#include "storage/file_object_store.h"
#include "tests/repository/shell.h"
#include "tests/repository/test_volume.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository {

inline constexpr int64_t kInteropChunkBytes = 256 << 10;
inline constexpr char kInteropPassword[] = "secret";

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

// The restic of one of Debian's releases: that of the system, or what ./dev setup unpacked.
struct Restic {
  std::string release;  // "bookworm", ...
  std::string program;
  std::string missing;  // Why there need not be one; "" where there must.

  // Runs a command line in which "restic" is this one.
  Outcome Run(const std::string& command) const {
    return Shell(absl::StrCat("restic() { ", program, " --no-cache \"$@\"; }; ", command));
  }
};

inline Restic ResticOf(const std::string& release) {
  if (release == "bookworm") {
    return {.release = release, .program = "/usr/bin/restic", .missing = ""};
  }
  const char* cache = std::getenv("CSI_DELTA_CACHE");
  const char* home = std::getenv("HOME");
  const std::string folder =
      cache != nullptr && *cache != '\0'
          ? absl::StrCat(cache, "/restic/")
          : absl::StrCat(home == nullptr ? "" : home, "/.cache/csi-delta/restic/");
  return {.release = release,
          .program = folder + release,
          .missing = ReadFile(absl::StrCat(folder, release, ".missing"))};
}

// What restic 0.14 has, and what only later ones have: rewrite, repair.
inline auto EveryRestic() { return testing::Values("bookworm", "trixie", "sid"); }
inline auto LaterRestics() { return testing::Values("trixie", "sid"); }

// "Sid", for the names of tests.
inline std::string NameOfRelease(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  name[0] = static_cast<char>(std::toupper(name[0]));
  return name;
}

// A folder of the test's own with a repository "repo" in it, which the restic of one release and we
// work on in turn.
class ResticFixture : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    restic_ = ResticOf(GetParam());
    if (!restic_.missing.empty()) {
      GTEST_SKIP() << restic_.missing;
    }
    const Outcome version = restic_.Run("restic version");
    ASSERT_EQ(version.exit_code, 0) << "there is no restic of " << GetParam() << ": ./dev setup";
    std::cout << GetParam() << ": " << version.output;
    store_ = std::make_unique<storage::FileObjectStore>(Path("repo"), Random::Real());
  }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }

  // One call of restic on a repository in the folder.
  Outcome RunRestic(const std::string& arguments, const std::string& repository = "repo",
                    const std::string& password = kInteropPassword) const {
    return restic_.Run(absl::StrCat("export RESTIC_PASSWORD=", password, " RESTIC_REPOSITORY=",
                                    Path(repository), "; restic ", arguments));
  }

  void ExpectRestic(const std::string& arguments, const std::string& repository = "repo") const {
    const Outcome outcome = RunRestic(arguments, repository);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
  }

  void ExpectResticFindsNothingWrong(const std::string& repository = "repo") const {
    const Outcome outcome = RunRestic("check --read-data", repository);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, testing::HasSubstr("no errors were found"));
  }

  std::unique_ptr<Repository> Init() {
    auto repository = Repository::Init(ctx_, *store_, kInteropPassword, {});
    EXPECT_THAT(repository, support::IsOk());
    return *std::move(repository);
  }

  std::unique_ptr<Repository> Open(const std::string& password = kInteropPassword) {
    auto repository = Repository::Open(ctx_, *store_, password, {});
    EXPECT_THAT(repository, support::IsOk());
    EXPECT_THAT((*repository)->LoadIndex(ctx_), support::IsOk());
    return *std::move(repository);
  }

  std::unique_ptr<Lock> TakeLock(Repository& repository, bool exclusive = true) {
    LockOptions options;
    options.exclusive = exclusive;
    absl::StatusOr<std::unique_ptr<Lock>> lock = Lock::Acquire(ctx_, repository, options);
    EXPECT_THAT(lock, support::IsOk());
    return *std::move(lock);
  }

  // Writes what the repository does not have yet.
  Id BackUp(const std::string& image) {
    std::unique_ptr<Repository> repository = Open();
    BlobWriterOptions options;
    options.known = KnownIn(*repository);
    options.pack_target_bytes = 1 << 20;
    const absl::StatusOr<Id> id =
        BackUpImage(ctx_, *repository, image, kInteropChunkBytes, options);
    EXPECT_THAT(id, support::IsOk());
    return id.value_or(Id());
  }

  void ExpectOursFindsNothingWrong() {
    std::unique_ptr<Repository> repository = Open();
    const absl::StatusOr<CheckReport> report =
        CheckRepository(ctx_, *repository, {.read_data = ReadEverything{}});
    ASSERT_THAT(report, support::IsOk());
    for (const Finding& finding : report->findings) {
      EXPECT_FALSE(finding.is_error) << finding.thing << ": " << finding.detail;
    }
    EXPECT_GT(report->packs_read, 0);
  }

  void ExpectRestores(const Id& id, const std::string& image) {
    std::unique_ptr<Repository> repository = Open();
    const absl::StatusOr<std::string> restored = RestoreImage(ctx_, *repository, id);
    ASSERT_THAT(restored, support::IsOk());
    EXPECT_TRUE(*restored == image);
  }

  Restic restic_;
  CallContext ctx_;
  const support::ScratchFolder folder_;
  std::unique_ptr<storage::FileObjectStore> store_;
};

}  // namespace csidelta::repository
