#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "tests/repository/restic_fixture.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/paths.h"

namespace csidelta::interop {

using repository::Outcome;

// csi-delta: what CSI_DELTA_PROGRAM names, else the one that was built with the tests.
inline std::string ProgramPath() {
  const char* chosen = std::getenv("CSI_DELTA_PROGRAM");
  return chosen != nullptr && *chosen != '\0' ? chosen : support::BuiltProgram("csi-delta");
}

// The last line of `output` that is JSON.
inline Json LastJson(const std::string& output) {
  Json last;
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    if (absl::StatusOr<Json> json = ParseJson(line); json.ok()) {
      last = *std::move(json);
    }
  }
  return last;
}

// Bytes of a volume that changed.
struct Change {
  std::size_t offset_bytes = 0;
  std::string bytes;
};

// A volume in a file, backed up by the program csi-delta; and a restic.
class StoryFixture : public repository::ResticFixture {
 protected:
  void SetUp() override {
    ResticFixture::SetUp();
    if (store_ == nullptr) {
      return;
    }
    // What compresses, what does not, and what is zero.
    image_ = support::Noise(1'500'000, 1) + support::Prose(1'000'000, 2) +
             std::string(1'000'000, '\0') + support::Noise(1'234'567, 3);
    WriteImage();
  }

  // More than one leaf of the tree.
  void Enlarge() {
    image_.resize(std::size_t{66} << 20);
    image_ += support::Noise(1'234'567, 4);
    WriteImage();
  }

  // One run of csi-delta on a repository in the folder.
  Outcome RunOurs(const std::string& arguments, const std::string& repository = "repo",
                  const std::string& password = repository::kInteropPassword) const {
    return repository::Shell(absl::StrCat("cd ", folder_.path(), " && RESTIC_PASSWORD=", password,
                                          " RESTIC_REPOSITORY=", Path(repository), " ",
                                          ProgramPath(), " ", arguments));
  }

  void ExpectOurs(const std::string& arguments, const std::string& repository = "repo") const {
    const Outcome outcome = RunOurs(arguments, repository);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
  }

  // Backs the volume up, all of it; the snapshot's id.
  std::string BackUpAll(const std::string& repository = "repo") const {
    return SnapshotOf(
        RunOurs("backup --json --chunk-size 256KiB --path /volume image", repository));
  }

  // The id of the newest snapshot.
  std::string Newest(const std::string& repository) const {
    const Json snapshots = LastJson(RunOurs("snapshots --json", repository).output);
    const auto newest = std::max_element(snapshots.begin(), snapshots.end(), [](auto& a, auto& b) {
      return GetString(a, {"time"}) < GetString(b, {"time"});
    });
    return newest == snapshots.end() ? "" : GetString(*newest, {"id"});
  }

  // Changes the volume, and backs up what changed. It must be done as an increment of `base`, or of
  // whichever snapshot when that is "".
  std::string BackUpChange(const std::vector<Change>& changes, const std::string& base,
                           const std::string& repository = "repo") {
    std::ofstream list(Path("list"));
    list << "{\"base\":\"" << (base.empty() ? Newest(repository) : base) << "\"}\n";
    for (const Change& change : changes) {
      image_.replace(change.offset_bytes, change.bytes.size(), change.bytes);
      list << "{\"offset\":" << change.offset_bytes << ",\"length\":" << change.bytes.size()
           << "}\n";
    }
    list << "{\"end\":true}\n";
    list.close();
    WriteImage();
    const Outcome outcome =
        RunOurs("backup --json --path /volume image --extents list", repository);
    const Json result = LastJson(outcome.output);
    EXPECT_EQ(GetString(result, {"mode_done"}), "incremental") << outcome.output;
    if (!base.empty()) {
      EXPECT_EQ(GetString(result, {"base"}), base);
    }
    return SnapshotOf(outcome);
  }

  // Onto a target that holds something else.
  void ExpectOursRestores(const std::string& id, const std::string& image,
                          const std::string& repository = "repo") const {
    std::ofstream(Path("target"), std::ios::binary | std::ios::trunc)
        << std::string(image.size(), '\xa5');
    ExpectOurs(absl::StrCat("restore ", id, " --target target"), repository);
    EXPECT_TRUE(repository::ReadFile(Path("target")) == image);
  }

  // The bytes as the files of a restored tree give them, one behind the other.
  void ExpectResticRestores(const std::string& id, const std::string& image,
                            const std::string& repository = "repo") const {
    ExpectRestic(absl::StrCat("restore ", id, " --target ", Path("tree")), repository);
    const Outcome joined =
        repository::Shell(absl::StrCat("cd ", Path("tree"), " && cat image/*/*/data >../joined"));
    EXPECT_EQ(joined.exit_code, 0) << joined.output;
    EXPECT_TRUE(repository::ReadFile(Path("joined")) == image);
    std::filesystem::remove_all(Path("tree"));
  }

  void ExpectBothFindNothingWrong(const std::string& repository = "repo") const {
    ExpectResticFindsNothingWrong(repository);
    ExpectOurs("check --read-data", repository);
  }

  // Ids of the snapshots, as restic lists them.
  std::vector<std::string> Ids(const std::string& repository = "repo") const {
    const Json list = LastJson(RunRestic("snapshots --json", repository).output);
    std::vector<std::string> ids;
    for (const Json& snapshot : list) {
      ids.push_back(GetString(snapshot, {"id"}));
    }
    return ids;
  }

  // Until the repository has so many locks.
  void AwaitLocks(int count) const {
    const Outcome seen = repository::Shell(
        absl::StrCat("timeout 30 sh -c 'until [ $(ls ", Path("repo/locks"),
                     " | grep -cE \"^[0-9a-f]{64}$\") = ", count, " ]; do sleep 0.02; done'"));
    EXPECT_EQ(seen.exit_code, 0) << "no moment with " << count << " locks";
  }

  // What a command line of the shell begins with, to work in the folder and on its repository.
  std::string Exports() const {
    return absl::StrCat("cd ", folder_.path(),
                        "; export RESTIC_PASSWORD=", repository::kInteropPassword,
                        " RESTIC_REPOSITORY=", Path("repo"), "; ");
  }

  std::string image_;

 private:
  void WriteImage() const {
    std::ofstream(Path("image"), std::ios::binary | std::ios::trunc) << image_;
  }

  static std::string SnapshotOf(const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    const std::string id = GetString(LastJson(outcome.output), {"snapshot_id"});
    EXPECT_EQ(id.size(), 64U) << outcome.output;
    return id;
  }
};

// A command of the shell that goes on until it is told to end: its standard input is a pipe.
class HeldCommand {
 public:
  // `output`: a file for both its streams.
  HeldCommand(const std::string& command, std::string output) : output_(std::move(output)) {
    pipe_ = popen(absl::StrCat("{ ", command, "; } >", output_, " 2>&1").c_str(), "we");
    EXPECT_NE(pipe_, nullptr);
  }
  ~HeldCommand() {
    if (pipe_ != nullptr) {
      pclose(pipe_);
    }
  }

  HeldCommand(const HeldCommand&) = delete;
  HeldCommand& operator=(const HeldCommand&) = delete;

  void Write(const std::string& bytes) {
    EXPECT_EQ(fwrite(bytes.data(), 1, bytes.size(), pipe_), bytes.size());
  }

  // Ends its input and waits for it.
  Outcome Finish() {
    const int status = pclose(std::exchange(pipe_, nullptr));
    return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .output = repository::ReadFile(output_)};
  }

 private:
  const std::string output_;
  FILE* pipe_ = nullptr;
};

}  // namespace csidelta::interop
