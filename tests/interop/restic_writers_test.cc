// Writers of every kind at once: two of csi-delta, and the restic of each release, on one
// repository.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/interop/story_fixture.h"

namespace csidelta::interop::restic_writers_test {
namespace {

using repository::Restic;
using repository::ResticOf;

// The restic of the parameter makes the repository; all of them write and judge.
class ResticWritersTest : public StoryFixture {
 protected:
  static std::vector<Restic> Everybody() {
    std::vector<Restic> all;
    for (const char* release : {"bookworm", "trixie", "sid"}) {
      if (Restic restic = ResticOf(release); restic.missing.empty()) {
        all.push_back(std::move(restic));
      }
    }
    return all;
  }

  // To one of csi-delta.
  void Signal(const std::string& signal, const std::string& writer) const {
    const Outcome sent = repository::Shell(
        absl::StrCat("kill -", signal, " $(cat ", Path(absl::StrCat(writer, ".pid")), ")"));
    EXPECT_EQ(sent.exit_code, 0) << sent.output;
  }
};

INSTANTIATE_TEST_SUITE_P(Releases, ResticWritersTest, testing::Values("bookworm"),
                         repository::NameOfRelease);

TEST_P(ResticWritersTest, AllWriteAtOnceAndNothingIsLost) {
  ExpectRestic("init");
  // The same bytes for all, so that every blob is written by several at once.
  const std::string stream = image_.substr(0, 2'500'000);
  std::map<std::string, std::unique_ptr<HeldCommand>> writers;
  for (const std::string name : {"one", "two"}) {
    writers[name] = std::make_unique<HeldCommand>(
        absl::StrCat(Exports(), "echo $$ >", name, ".pid; exec ", ProgramPath(),
                     " backup --json --chunk-size 256KiB --path /", name,
                     " --limit-upload 400 image"),
        Path(name));
    AwaitLocks(static_cast<int>(writers.size()));
    Signal("STOP", name);  // Until the others have begun, however long that takes.
  }
  for (const Restic& restic : Everybody()) {
    writers[restic.release] = std::make_unique<HeldCommand>(
        absl::StrCat(Exports(), restic.program, " --no-cache backup --json --stdin --tag ",
                     restic.release),
        Path(restic.release));
  }
  AwaitLocks(static_cast<int>(writers.size()));  // All have begun, and none has ended.
  Signal("CONT", "one");
  Signal("CONT", "two");
  for (const Restic& restic : Everybody()) {
    writers[restic.release]->Write(stream);
  }
  std::map<std::string, std::string> snapshots;
  for (const auto& [name, writer] : writers) {
    const Outcome outcome = writer->Finish();
    EXPECT_EQ(outcome.exit_code, 0) << name << "\n" << outcome.output;
    snapshots[name] = GetString(LastJson(outcome.output), {"snapshot_id"});
  }
  EXPECT_EQ(Ids().size(), writers.size());
  ExpectOursRestores(snapshots["one"], image_);
  ExpectResticRestores(snapshots["two"], image_);
  ExpectOurs("check --read-data");
  std::ofstream(Path("stream"), std::ios::binary) << stream;
  for (const Restic& restic : Everybody()) {
    const Outcome check = restic.Run(absl::StrCat(Exports(), "restic check --read-data"));
    EXPECT_EQ(check.exit_code, 0) << restic.release << "\n" << check.output;
    const Outcome same = restic.Run(absl::StrCat(
        Exports(), "restic dump ", snapshots[restic.release], " /stdin | cmp - ", Path("stream")));
    EXPECT_EQ(same.exit_code, 0) << restic.release << "\n" << same.output;
  }
  // Blobs that several wrote are there several times; prune leaves one of each.
  ExpectOurs("prune --max-unused 0");
  ExpectBothFindNothingWrong();
  ExpectOursRestores(snapshots["two"], image_);
}

}  // namespace
}  // namespace csidelta::interop::restic_writers_test
