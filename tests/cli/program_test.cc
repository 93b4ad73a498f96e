#include "cli/program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/rfc3339.h"
#include "base/unique_fd.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/text.h"
#include "incremental/mover/memory_plan.h"
#include "tests/cli/program_runner.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::program_test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::size_t kChunk = 256 << 10;
constexpr std::size_t kImageBytes = 40 * kChunk + 1000;

// A folder with an image file.
class BareProgramTest : public testing::Test, protected ProgramRunner {
 protected:
  BareProgramTest() : ProgramRunner(testing::TempDir()) {
    variables = {{"RESTIC_PASSWORD", "secret"}, {"RESTIC_REPOSITORY", Path("repo")}};
    image_ = support::Noise(kImageBytes, 1);
    Write("image", image_);
  }

  using ProgramRunner::Run;  // Not that of GoogleTest.

  // Backs the image up and returns the result document.
  Json Backup(std::vector<std::string> more = {}, ExitCode expected = ExitCode::kOk) const {
    std::vector<std::string> words = {"backup", "--json", "--chunk-size", "256KiB", Path("image")};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.code, expected) << outcome.error;
    return outcome.Result();
  }

  // Changes the chunk in the file and in image_.
  void ChangeChunk(std::size_t chunk) {
    image_.replace(chunk * kChunk, kChunk, support::Noise(kChunk, 100 + chunk));
    std::fstream file(Path("image"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(chunk * kChunk));
    file.write(image_.data() + chunk * kChunk, static_cast<std::streamsize>(kChunk));
  }

  std::string image_;
};

class ProgramTest : public BareProgramTest {
 protected:
  ProgramTest() { Init(); }

  std::pair<std::string, std::string> BackupTwice();
};

std::string Line(std::size_t offset, std::size_t length) {
  return absl::StrCat("{\"offset\":", offset, ",\"length\":", length, "}\n");
}

constexpr char kEndLine[] = "{\"end\":true}\n";

// A list of what changed since the backup of this result document.
std::string ListSince(const Json& base, const std::string& lines) {
  return absl::StrCat("{\"base\":\"", GetString(base, {"snapshot_id"}), "\"}\n", lines, kEndLine);
}

std::string AllocatedList(const std::string& lines) {
  return absl::StrCat("{\"allocated\":true}\n", lines, kEndLine);
}

TEST_F(ProgramTest, AVolumeComesBackAsItWas) {
  const Json full = Backup();
  EXPECT_EQ(GetString(full, {"mode_done"}), "full");
  EXPECT_EQ(GetInt(full, {"logical_bytes"}), static_cast<int64_t>(kImageBytes));
  ChangeChunk(7);
  Write("list", ListSince(full, Line(7 * kChunk + 5, 100)));
  const Json increment = Backup({"--extents", Path("list")});
  EXPECT_EQ(GetString(increment, {"mode_done"}), "incremental");
  EXPECT_EQ(GetString(increment, {"base"}), GetString(full, {"snapshot_id"}));
  EXPECT_EQ(GetInt(increment, {"read_bytes"}), static_cast<int64_t>(kChunk));
  EXPECT_EQ(GetInt(increment, {"changed_bytes"}), static_cast<int64_t>(kChunk));

  Write("target", std::string(kImageBytes + 4096, '\xa5'));
  const Outcome restored = Run({"restore", "latest", "--target", Path("target"), "--json"});
  ASSERT_EQ(restored.code, ExitCode::kOk) << restored.error;
  EXPECT_EQ(GetString(restored.Result(), {"snapshot_id"}), GetString(increment, {"snapshot_id"}));
  EXPECT_EQ(Read("target"), image_ + std::string(4096, '\xa5'));
}

TEST_F(ProgramTest, AListWithoutExtentsMeansThatNothingChanged) {
  const Json full = Backup();
  Write("list", ListSince(full, ""));
  const Json increment = Backup({"--extents", Path("list"), "--parent", "latest"});
  EXPECT_EQ(GetString(increment, {"mode_done"}), "incremental");
  EXPECT_EQ(GetInt(increment, {"read_bytes"}), 0);
  EXPECT_EQ(GetString(increment, {"image_tree"}), GetString(full, {"image_tree"}));
}

TEST_F(ProgramTest, AResultIsTwoLinesAndOneIfNothingChanged) {
  const std::vector<std::string> words = {"backup", "--chunk-size", "256KiB", Path("image")};
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = Run(all);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    for (const absl::string_view line : absl::StrSplit(outcome.out, '\n')) {
      EXPECT_LE(line.size(), 80U) << line;
    }
    return outcome.out;
  };
  EXPECT_THAT(run({"--dry-run"}), ContainsRegex("^would read 10.0 MiB of 10.0 MiB: full "
                                                "\\(first backup\\)\n$"));
  EXPECT_EQ(Run({"snapshots", "--json"}).Result().size(), 0U) << "a dry run stores nothing";
  EXPECT_THAT(run({}), ContainsRegex("^saved [0-9a-f]{8}: full \\(first backup\\), volume of "
                                     "10.0 MiB\n  read 10.0 MiB, stored [^,]*, in [^,]*\n$"));
  const Json full = Run({"snapshots", "--json"}).Result()[0];
  const std::string id = GetString(full, {"short_id"});
  Write("list", ListSince({{"snapshot_id", id}}, ""));
  EXPECT_THAT(run({"--extents", Path("list"), "--skip-if-unchanged"}),
              ContainsRegex("^nothing changed since " + id + ": no new snapshot, in [^\n]*\n$"));
  EXPECT_THAT(run({"--skip-if-unchanged"}), HasSubstr("nothing changed since " + id));
  EXPECT_EQ(Run({"snapshots", "--json"}).Result().size(), 1U);
  const Outcome clone = Run({"backup", "--chunk-size", "256KiB", Path("image"), "--path", "/clone",
                             "--parent", id, "--skip-if-unchanged", "--json"});
  const std::string of_clone = GetString(clone.Result(), {"snapshot_id"});
  EXPECT_THAT(of_clone, Not(testing::StartsWith(id))) << "which is no backup of this volume";
  EXPECT_EQ(Run({"forget", of_clone}).code, ExitCode::kOk);
  EXPECT_THAT(run({"--extents", Path("list"), "--parent", id}),
              ContainsRegex("^saved [0-9a-f]{8}: incremental on " + id +
                            ", nothing changed, in [^\n]*\n$"));
  ChangeChunk(7);
  Write("list", ListSince({{"snapshot_id", id}}, Line(7 * kChunk, kChunk)));
  const std::vector<std::string> listed = {"--extents", Path("list"), "--parent", id,
                                           "--skip-if-unchanged"};
  std::vector<std::string> more = listed;
  more.emplace_back("-n");
  EXPECT_EQ(run(more), "would read 256.0 KiB of 10.0 MiB: incremental on " + id + "\n");
  more.back() = "-v";
  EXPECT_THAT(run(more),
              AllOf(ContainsRegex("^saved [0-9a-f]{8}: incremental on " + id +
                                  ", 256.0 KiB of 10.0 MiB changed\n"),
                    ContainsRegex("\n  audited .* of the rest: no difference\n  new .* requests?, "
                                  "peak memory")));
}

// What `false > list`, or a disk that is full, leaves of a list; and one from before lists said
// what they are of.
TEST_F(ProgramTest, AnIncompleteOrMalformedListIsRefused) {
  const Json full = Backup();
  ChangeChunk(7);
  const std::string whole = ListSince(full, Line(7 * kChunk, kChunk));
  const std::string cut = whole.substr(0, whole.size() - std::string(kEndLine).size());
  for (const std::string& list :
       {std::string(), ListSince(full, "").substr(0, 20), cut, Line(7 * kChunk, kChunk) + kEndLine,
        std::string(kEndLine), std::string("{\"offset\":0}\n")}) {
    Write("list", list);
    const Outcome outcome = Run({"backup", Path("image"), "--extents", Path("list")});
    EXPECT_EQ(outcome.code, ExitCode::kFailed) << list;
    EXPECT_THAT(outcome.error, HasSubstr(Path("list")));
  }
  EXPECT_EQ(Run({"snapshots", "--json"}).Result().size(), 1U);
}

TEST_F(BareProgramTest, ADriverWithoutASocketIsNotWaitedFor) {
  const Outcome outcome = Run({"conformance", "--csi-address", "unix:///nope.sock"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, HasSubstr("there is no socket /nope.sock"));
}

TEST_F(ProgramTest, AWrongListEndsWithTwentyAndAGoodBackup) {
  const Json one_full = Backup({"--host", "a"});
  const Json full = Backup({"--host", "d"});
  for (std::size_t chunk = 0; chunk < 40; ++chunk) {
    ChangeChunk(chunk);
  }
  const std::string outside = Line(kImageBytes, kChunk);
  struct Case {
    const char* host;
    std::string list;
    const char* reason;
  };
  for (const Case& one :
       {Case{"b", ListSince({{"snapshot_id", "8ab6fc6f"}}, ""), "list-base-mismatch"},
        Case{"c", AllocatedList(outside), "list-refused"},
        Case{"a", ListSince(one_full, outside), "list-refused"},
        Case{"d", ListSince(full, Line(0, kChunk)), "audit-mismatch"}}) {
    Write("list", one.list);
    const Json result =
        Backup({"--extents", Path("list"), "--host", one.host}, ExitCode::kAuditMismatch);
    EXPECT_EQ(GetString(result, {"mode_done"}), "full");
    EXPECT_EQ(GetString(result, {"reason"}), one.reason);
    EXPECT_GE(GetInt(result, {"read_bytes"}), static_cast<int64_t>(kImageBytes));
    ASSERT_EQ(Run({"restore", GetString(result, {"snapshot_id"}), "-t", Path("target")}).code,
              ExitCode::kOk);
    EXPECT_EQ(Read("target"), image_);
  }
}

TEST_F(ProgramTest, AFallbackIsRefusedWhereItIsNotAllowed) {
  Write("list", ListSince(Backup(), Line(kImageBytes, kChunk)));  // Outside of the volume.
  const Outcome refused =
      Run({"backup", Path("image"), "--extents", Path("list"), "--on-fallback", "fail"});
  EXPECT_EQ(refused.code, ExitCode::kFallbackRefused);
  EXPECT_THAT(refused.error, HasSubstr("--on-fallback proceed"));
}

TEST_F(ProgramTest, AListFromAPipeThatEndsTooEarlyCommitsNothing) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  const auto backup_from_pipe = [&](const std::string& list) {
    std::thread writer([&] { std::ofstream(Path("pipe")) << list; });
    const Outcome outcome = Run({"backup", Path("image"), "--extents", Path("pipe")});
    writer.join();
    return outcome;
  };
  const Outcome cut = backup_from_pipe("{\"allocated\":true}\n" + Line(0, kChunk));
  EXPECT_EQ(cut.code, ExitCode::kFailed);
  EXPECT_THAT(cut.error, HasSubstr("end"));
  EXPECT_EQ(Run({"snapshots", "--json"}).out, "[]\n");
  EXPECT_EQ(backup_from_pipe(AllocatedList(Line(0, kImageBytes))).code, ExitCode::kOk);
}

TEST_F(ProgramTest, AnImmutableVolumeIsNotReadTwice) {
  const Outcome first = Run({"backup", "--immutable", "--chunk-size", "256KiB", Path("image")});
  ASSERT_EQ(first.code, ExitCode::kOk) << first.error;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Path("repo/aux/v1"))) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("run-")));
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST_F(ProgramTest, ASmallBudgetResumesAnInterruptedRunOrReportsThatItDoesNot) {
  Backup();
  Write("repo/aux/v1/unfinished", "1");
  // What a worker with a limit of 128 MiB has, and a limit that leaves nothing for an index.
  const Outcome small = Run({"backup", "--memory-budget", "96MiB", Path("image")});
  EXPECT_EQ(small.code, ExitCode::kOk) << small.error;
  EXPECT_THAT(small.error, Not(HasSubstr("memory budget")));
  EXPECT_FALSE(std::filesystem::exists(Path("repo/aux/v1/unfinished")));
  Write("repo/aux/v1/unfinished", "1");
  const std::string least = absl::StrCat(incremental::LeastMemoryBytes(kChunk));
  const Outcome least_of_all = Run({"backup", "--memory-budget", least, Path("image")});
  EXPECT_EQ(least_of_all.code, ExitCode::kOk) << least_of_all.error;
  EXPECT_THAT(least_of_all.error, HasSubstr("is read and stored again; give --memory-budget"));
}

TEST_F(ProgramTest, ABudgetThatABackupAsksForIsEnough) {
  const Outcome refused = Run({"backup", Path("image"), "--memory-budget", "41MiB"});
  EXPECT_EQ(refused.code, ExitCode::kFailed);
  std::string least = refused.error.substr(refused.error.find("at least ") + 9);
  least.resize(least.find("MiB") + 3);
  EXPECT_EQ(Run({"backup", Path("image"), "--memory-budget", least}).code, ExitCode::kOk)
      << refused.error;
}

TEST_F(ProgramTest, MeasureReportsTheSizeOfTheRepository) {
  Backup();
  const Json result = Backup({"--measure"});
  int64_t pack_bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("repo/data"))) {
    pack_bytes += entry.is_regular_file() ? static_cast<int64_t>(entry.file_size()) : 0;
  }
  EXPECT_EQ(GetInt(result, {"repository_bytes"}), pack_bytes);
  EXPECT_EQ(GetInt(result, {"repository_snapshots"}), 2);
  EXPECT_FALSE(Backup().contains("repository_bytes"));
}

// /dev is memory, and a mistyped device would seem to be written.
TEST_F(ProgramTest, RestoreMakesNoFileBelowDev) {
  Backup();
  const support::ScratchFolder memory("/dev/shm");
  const std::string link = Path("link");
  std::filesystem::create_directory_symlink(memory.path(), link);
  const std::string existing = memory.path() + "/existing";
  std::ofstream(existing) << std::string(2 * kImageBytes, 'x');
  for (const std::string& target :
       {std::string("/dev/csi-delta-typo"), memory.path() + "/new", link + "/new", existing}) {
    const Outcome outcome = Run({"restore", "latest", "-t", target});
    EXPECT_EQ(outcome.code, ExitCode::kFailed) << target;
    EXPECT_THAT(outcome.error, HasSubstr("only devices are written to there")) << target;
    EXPECT_EQ(std::filesystem::exists(target), target == existing) << target;
  }
  EXPECT_EQ(std::filesystem::file_size(existing), 2 * kImageBytes);
}

TEST_F(ProgramTest, AVolumeIsNotWrittenToAPipe) {
  Backup();
  EXPECT_THAT(Run({"restore", "latest", "-t", "-"}).error, HasSubstr("pipe"));
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST_F(ProgramTest, LatestIsRefusedForSeveralVolumes) {
  Backup({"--path", "/orders", "--host", "shop"});
  Backup({"--path", "/orders", "--host", "shop"});
  ASSERT_EQ(Run({"restore", "latest", "-t", Path("target")}).code, ExitCode::kOk);
  const std::string other =
      GetString(Backup({"--path", "/users", "--host", "shop"}), {"snapshot_id"});
  Write("target", "as it was");
  for (std::vector<std::string> words :
       {std::vector<std::string>{"restore", "latest", "-t", Path("target")},
        {"restore", "latest", "--host", "shop", "-t", Path("target")},
        {"diff", "latest", other},
        {"forget", "latest"},
        {"backup", "--parent", "latest", Path("image")}}) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.code, ExitCode::kFailed) << words[0];
    EXPECT_THAT(outcome.error, HasSubstr("could be of 2 volumes")) << words[0];
    EXPECT_THAT(outcome.error, HasSubstr(other.substr(0, 8) + " of shop:/users")) << words[0];
    EXPECT_THAT(outcome.error, HasSubstr("of shop:/orders")) << words[0];
  }
  EXPECT_EQ(Read("target"), "as it was");
  EXPECT_EQ(Run({"snapshots", "--json"}).Result().size(), 3U);
  Write("target", "");
  EXPECT_EQ(Run({"restore", "latest", "--path", "/users", "-t", Path("target")}).code,
            ExitCode::kOk);
  EXPECT_EQ(Read("target"), image_);
}

TEST_F(ProgramTest, ARestoreReportsWhatItOverwrites) {
  Backup({"--path", "/orders", "--host", "shop"});
  const std::vector<std::string> words = {"restore", "latest", "-t", Path("target")};
  const Outcome made = Run(words);
  EXPECT_THAT(made.out, HasSubstr("of shop:/orders"));
  EXPECT_THAT(made.out, HasSubstr("created file " + Path("target")));
  EXPECT_EQ(made.error, "");
  const std::string before(kImageBytes + 1000, 'x');
  Write("target", before);
  const Outcome dry = Run({"restore", "latest", "-n", "-t", Path("target")});
  EXPECT_EQ(dry.code, ExitCode::kOk) << dry.error;
  EXPECT_THAT(dry.out, HasSubstr("except the last 1000 B"));
  EXPECT_EQ(Read("target"), before);

  std::string asked;
  bool answer = false;
  confirm = [&](const CallContext&, absl::string_view question) -> absl::StatusOr<bool> {
    asked = std::string(question);
    return answer;
  };
  EXPECT_EQ(Run(words).code, ExitCode::kFailed);
  EXPECT_THAT(asked, HasSubstr("of shop:/orders"));
  EXPECT_THAT(asked, HasSubstr(Path("target")));
  EXPECT_EQ(Read("target"), before);
  answer = true;
  EXPECT_THAT(Run(words).out, HasSubstr("wrote over file"));
  EXPECT_EQ(Read("target"), image_ + std::string(1000, 'x'));
  asked = "";
  EXPECT_EQ(Run({"restore", "latest", "--yes", "-t", Path("target")}).code, ExitCode::kOk);
  EXPECT_EQ(asked, "");
  confirm = nullptr;
  EXPECT_THAT(Run(words).error, HasSubstr("will be overwritten"));
}

TEST_F(ProgramTest, ATargetThatIsTooSmallIsNotTouched) {
  Backup();
  Write("target", "small");
  const Outcome outcome = Run({"restore", "latest", "--target", Path("target")});
  EXPECT_EQ(outcome.code, ExitCode::kTargetTooSmall);
  EXPECT_EQ(Read("target"), "small");
}

TEST_F(BareProgramTest, ConditionsHaveExitCodesAndSentences) {
  const Outcome none = Run({"snapshots"});
  EXPECT_EQ(none.code, ExitCode::kNoRepository);
  EXPECT_THAT(none.error, HasSubstr("csi-delta init"));
  Write("empty", "\n");
  EXPECT_EQ(Run({"snapshots", "-p", Path("empty")}).code, ExitCode::kNoRepository);
  Init();
  const Outcome empty = Run({"snapshots", "-p", Path("empty")});
  EXPECT_EQ(empty.code, ExitCode::kFailed);
  EXPECT_THAT(empty.error, HasSubstr("is empty"));
  EXPECT_EQ(Run({"init"}).code, ExitCode::kFailed);
  variables["RESTIC_PASSWORD"] = "other";
  const Outcome wrong = Run({"snapshots"});
  EXPECT_EQ(wrong.code, ExitCode::kWrongPassword);
  EXPECT_THAT(wrong.error, HasSubstr("--password-file"));
  EXPECT_THAT(wrong.error, Not(HasSubstr("other")));
}

TEST_F(ProgramTest, AVerbThatWritesRefusesToTakeNoLock) {
  Backup({});
  for (const std::vector<std::string>& words : {std::vector<std::string>{"backup", Path("image")},
                                                {"forget", "latest"},
                                                {"prune"},
                                                {"repair", "index"},
                                                {"key", "passwd"},
                                                {"forget", "--keep-last", "1", "-n"}}) {
    std::vector<std::string> more = words;
    more.emplace_back("--no-lock");
    const Outcome outcome = Run(more);
    EXPECT_EQ(outcome.code, ExitCode::kFailed) << words.front();
    EXPECT_THAT(outcome.error, HasSubstr("--no-lock is for verbs that only read"));
  }
  EXPECT_EQ(ParseJson(Run({"snapshots", "--json"}).out)->size(), 1) << "nothing was written";
  EXPECT_EQ(Run({"check", "--no-lock"}).code, ExitCode::kOk);
}

TEST_F(ProgramTest, TagsThatABackupWritesItselfAreRefused) {
  for (const char* const tag : {"kind=full", "ok,mode=block", "layout=", "vol-uid=1", "backup=b"}) {
    const Outcome outcome = Run({"backup", Path("image"), "--tag", tag});
    EXPECT_EQ(outcome.code, ExitCode::kFailed) << tag;
    EXPECT_THAT(outcome.error, HasSubstr("choose another name")) << tag;
  }
  EXPECT_EQ(ParseJson(Run({"snapshots", "--json"}).out)->size(), 0);
  Backup({"--tag", "kindness,kind"});
}

TEST_F(ProgramTest, ThePathOfASnapshotIsAbsolute) {
  EXPECT_THAT(Run({"backup", Path("image"), "--path", "shop/orders"}).error,
              HasSubstr("--path shop/orders is not absolute"));
  EXPECT_EQ(ParseJson(Run({"snapshots", "--json"}).out)->size(), 0);
  Backup({"--path", "/shop/orders"});
}

TEST_F(ProgramTest, AnIdThatMatchesNoSnapshotIsReported) {
  Backup({"--host", "alpha"});
  const Json list = *ParseJson(Run({"snapshots", "--json"}).out);
  const std::string id = GetString(list.at(0), {"short_id"});
  EXPECT_EQ(Run({"snapshots", id}).code, ExitCode::kOk);
  const Outcome none = Run({"snapshots", "zzz"});
  EXPECT_EQ(none.code, ExitCode::kFailed);
  EXPECT_THAT(none.error, HasSubstr("no snapshot matches zzz"));
  EXPECT_THAT(none.out, HasSubstr("0 snapshots"));
  EXPECT_EQ(ParseJson(Run({"snapshots", "zzz", "--json"}).out)->size(), 0);
  const Outcome some = Run({"snapshots", id, "zzz"});
  EXPECT_EQ(some.code, ExitCode::kIncomplete);
  EXPECT_THAT(some.error, HasSubstr("no snapshot matches zzz"));
  EXPECT_THAT(some.out, HasSubstr("1 snapshot; each can be restored by itself\n"));
  EXPECT_THAT(Run({"snapshots", id, "--host", "beta"}).error, HasSubstr("and --host"));
  const Outcome filtered = Run({"snapshots", "--host", "beta"});
  EXPECT_EQ(filtered.code, ExitCode::kOk) << "a filter finds what it does";
  EXPECT_THAT(filtered.error, HasSubstr("no snapshot matches --host"));
  EXPECT_EQ(Run({"snapshots", "--latest", "1", "--output", "id"}).out,
            GetString(list.at(0), {"id"}) + "\n");
}

TEST_F(ProgramTest, SnapshotsPrintOneValueAndFilter) {
  Backup({"--tag", "daily,db", "--host", "alpha", "--path", "/shop/orders"});
  Backup({"--host", "beta", "--path", "/shop/orders"});
  const Outcome all = Run({"snapshots", "--json"});
  EXPECT_EQ(std::count(all.out.begin(), all.out.end(), '\n'), 1);
  ASSERT_EQ(all.Result().size(), 2U);
  const Json first = all.Result()[0];
  EXPECT_EQ(GetString(first, {"hostname"}), "alpha");
  EXPECT_EQ(GetString(first, {"program_version"}), ProgramVersion());
  EXPECT_EQ(GetString(first, {"short_id"}), GetString(first, {"id"}).substr(0, 8));
  EXPECT_EQ(Run({"snapshots", "--json", "--host", "beta"}).Result().size(), 1U);
  EXPECT_EQ(Run({"snapshots", "--json", "--tag", "daily"}).Result().size(), 1U);
  EXPECT_EQ(Run({"snapshots", "--json", "--path", "/other"}).Result().size(), 0U);
  EXPECT_THAT(Run({"snapshots"}).out, HasSubstr("2 snapshots"));
}

TEST_F(ProgramTest, LsAndStatsPrintOneValue) {
  Backup();
  const Outcome listed = Run({"ls", "latest", "--json"});
  ASSERT_EQ(listed.code, ExitCode::kOk) << listed.error;
  EXPECT_EQ(std::count(listed.out.begin(), listed.out.end(), '\n'), 1);
  EXPECT_EQ(listed.Result()["nodes"].size(), 5U);  // image, 000, 00, data, volume.json
  EXPECT_THAT(Run({"ls", "latest"}).out, HasSubstr("/image/000/00/data\n/volume.json\n"));
  const Json size = Run({"stats", "--json"}).Result();
  EXPECT_GT(GetInt(size, {"total_size"}), static_cast<int64_t>(kImageBytes));
  EXPECT_EQ(GetInt(size, {"total_file_count"}), 5);
  EXPECT_GT(GetInt(Run({"stats", "--json", "--mode", "raw-data"}).Result(), {"total_blob_count"}),
            40);
}

TEST_F(ProgramTest, DiffNamesTheChunksThatDiffer) {
  const std::string before = GetString(Backup(), {"snapshot_id"});
  ChangeChunk(3);
  ChangeChunk(4);
  ChangeChunk(39);
  const std::string after = GetString(Backup(), {"snapshot_id"});
  const Outcome summary = Run({"diff", before, after, "--json"});
  ASSERT_EQ(summary.code, ExitCode::kOk) << summary.error;
  EXPECT_EQ(GetInt(summary.Result(), {"changed_bytes"}), static_cast<int64_t>(3 * kChunk));
  const std::string list = ListSince({{"snapshot_id", before}},
                                     Line(3 * kChunk, 2 * kChunk) + Line(39 * kChunk, kChunk));
  EXPECT_EQ(Run({"diff", before, after, "--extents"}).out, list);
  EXPECT_EQ(Run({"diff", before, after, "--extents", "--json"}).out, list) << "without progress";
  EXPECT_EQ(Run({"diff", before, before, "--extents"}).out,
            ListSince({{"snapshot_id", before}}, ""));
}

// The older and the newer snapshot of an image of which two chunks changed.
std::pair<std::string, std::string> ProgramTest::BackupTwice() {
  const Json full = Backup({"--host", "alpha", "--path", "/shop/orders", "--tag", "daily"});
  ChangeChunk(3);
  ChangeChunk(4);
  Write("list", ListSince(full, Line(3 * kChunk, 2 * kChunk)));
  const Json increment =
      Backup({"--host", "alpha", "--path", "/shop/orders", "--extents", Path("list")});
  return {GetString(full, {"snapshot_id"}), GetString(increment, {"snapshot_id"})};
}

TEST_F(ProgramTest, SnapshotsSayWhatEachBackupDidWithinEightyColumns) {
  const auto [older, newer] = BackupTwice();
  const Outcome narrow = Run({"snapshots"});
  ASSERT_EQ(narrow.code, ExitCode::kOk) << narrow.error;
  const std::vector<std::string> lines = absl::StrSplit(narrow.out, '\n');
  ASSERT_GE(lines.size(), 6U) << narrow.out;
  EXPECT_EQ(lines[0], "alpha:/shop/orders");
  EXPECT_THAT(lines[1], AllOf(HasSubstr("Mode"), HasSubstr("Reason"), HasSubstr("Changed"),
                              HasSubstr("Added"), HasSubstr("Took"), Not(HasSubstr("Parent"))));
  EXPECT_THAT(lines[2], AllOf(testing::StartsWith(older.substr(0, 8)), HasSubstr("  full  "),
                              HasSubstr("  first backup  -  ")));
  EXPECT_THAT(lines[3], AllOf(testing::StartsWith(newer.substr(0, 8)), HasSubstr("  incr  "),
                              HasSubstr("512.0 KiB")));
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 80U) << line;
  }
  table_columns = 120;
  const Outcome wide = Run({"snapshots"});
  EXPECT_THAT(wide.out, AllOf(HasSubstr("Parent"), HasSubstr("daily"), HasSubstr("10.0 MiB"),
                              HasSubstr(older.substr(0, 8) + "  -\n"), Not(HasSubstr("kind="))));
  const Json all = Run({"snapshots", "--json"}).Result();
  EXPECT_EQ(GetString(all[0], {"csi_delta", "reason"}), "no-parent");
  EXPECT_EQ(GetInt(all[1], {"csi_delta", "changed_bytes"}), static_cast<int64_t>(2 * kChunk));
}

TEST_F(ProgramTest, ShowPrintsWhatIsKnownOfASnapshot) {
  const auto [older, newer] = BackupTwice();
  const Outcome first = Run({"show", older});
  ASSERT_EQ(first.code, ExitCode::kOk) << first.error;
  EXPECT_THAT(first.out, AllOf(HasSubstr("Backup          full backup: first backup\n"),
                               HasSubstr("There is no earlier backup"), HasSubstr(older),
                               HasSubstr("Parent of       " + newer.substr(0, 8)),
                               HasSubstr("csi-delta show " + newer.substr(0, 8) + "\n"),
                               Not(HasSubstr("See parent"))));
  const Outcome second = Run({"show", "latest"});
  EXPECT_THAT(second.out,
              AllOf(HasSubstr("incremental backup\n"), HasSubstr("512.0 KiB"),
                    HasSubstr("Chain           2 snapshots since " + older.substr(0, 8) + "\n"),
                    HasSubstr("extent-list"),
                    HasSubstr("See parent      csi-delta show " + older.substr(0, 8) + "\n"),
                    HasSubstr("See changes     csi-delta map " + newer.substr(0, 8) + "\n"),
                    Not(HasSubstr("See child"))));
  const Outcome json = Run({"show", newer, "--json"});
  EXPECT_EQ(std::count(json.out.begin(), json.out.end(), '\n'), 1);
  EXPECT_EQ(GetString(json.Result(), {"snapshot", "id"}), newer);
  EXPECT_EQ(GetString(json.Result(), {"volume", "parent_snapshot"}), older);
  EXPECT_EQ(GetInt(json.Result(), {"chain", "length"}), 2);
  ASSERT_EQ(Run({"forget", older}).code, ExitCode::kOk);
  EXPECT_THAT(Run({"show", newer}).out,
              HasSubstr("1 snapshot since " + newer.substr(0, 8) + ", whose parent was removed"));
  EXPECT_EQ(Run({"show", older}).code, ExitCode::kFailed);
  const Json unnamed = Backup({"--host", " ", "--path", "/x"});
  EXPECT_THAT(Run({"show", GetString(unnamed, {"snapshot_id"})}).out,
              HasSubstr("\nPath            /x\n"));
}

TEST_F(ProgramTest, MapDrawsWhereAVolumeChanged) {
  const auto [older, newer] = BackupTwice();
  const Outcome since_parent = Run({"map", newer});
  ASSERT_EQ(since_parent.code, ExitCode::kOk) << since_parent.error;
  EXPECT_THAT(since_parent.out,
              AllOf(HasSubstr("512.0 KiB of 10.0 MiB changed, in 1 range\n"),
                    HasSubstr("         0 B ["), HasSubstr("██"), HasSubstr("largest ranges"),
                    HasSubstr(absl::StrCat(3 * kChunk, "\n")), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(Run({"map", older, newer}).out, since_parent.out);
  const Json json = Run({"map", older, newer, "--json"}).Result();
  EXPECT_EQ(GetInt(json, {"changed_bytes"}), static_cast<int64_t>(2 * kChunk));
  EXPECT_EQ(GetInt(json["largest"][0], {"offset_bytes"}), static_cast<int64_t>(3 * kChunk));
  EXPECT_THAT(Run({"map", older, older}).out, HasSubstr("0 B of 10.0 MiB changed, in 0 ranges"));
  const Outcome alone = Run({"map", older});
  EXPECT_EQ(alone.code, ExitCode::kFailed);
  EXPECT_THAT(alone.error, HasSubstr("has no parent; name two snapshots"));
  EXPECT_EQ(Run({"map", newer, "--svg", Path("map.svg")}).code, ExitCode::kOk);
  EXPECT_THAT(Read("map.svg"), HasSubstr("512.0 KiB of 10.0 MiB changed, in 1 range</text>"));
  EXPECT_THAT(Run({"map", newer, "--svg", Path("map.svg")}).error, HasSubstr("File exists"));
  out_is_terminal = true;
  EXPECT_THAT(Run({"map", newer}).out, HasSubstr("\x1b[36m"));
  variables["NO_COLOR"] = "1";
  EXPECT_EQ(Run({"map", newer}).out, since_parent.out);
}

TEST_F(ProgramTest, KeysComeAndGo) {
  Write("new", "another\n");
  ASSERT_EQ(Run({"key", "add", "--new-password-file", Path("new")}).code, ExitCode::kOk);
  const Json keys = Run({"key", "list", "--json"}).Result();
  ASSERT_EQ(keys.size(), 2U);
  ASSERT_EQ(Run({"-p", Path("new"), "snapshots"}).code, ExitCode::kOk);
  for (const Json& key : keys) {
    const ExitCode expected = GetBool(key, {"current"}) ? ExitCode::kFailed : ExitCode::kOk;
    EXPECT_EQ(Run({"key", "remove", GetString(key, {"id"})}).code, expected);
  }
  EXPECT_EQ(Run({"-p", Path("new"), "snapshots"}).code, ExitCode::kWrongPassword);
  ASSERT_EQ(Run({"key", "passwd", "--new-password-file", Path("new")}).code, ExitCode::kOk);
  EXPECT_EQ(Run({"snapshots"}).code, ExitCode::kWrongPassword);
  EXPECT_EQ(Run({"-p", Path("new"), "snapshots"}).code, ExitCode::kOk);
}

TEST_F(ProgramTest, ADamagedKeyIsNamedAndCanBeRemoved) {
  const std::string bad = std::string(64, '0');
  Write(absl::StrCat("repo/keys/", bad), "{}");
  const Outcome listed = Run({"key", "list", "--json"});
  EXPECT_EQ(listed.code, ExitCode::kIncomplete);
  EXPECT_THAT(listed.error, HasSubstr("key 00000000 is damaged"));
  ASSERT_EQ(listed.Result().size(), 1U);
  EXPECT_TRUE(GetBool(listed.Result()[0], {"current"}));
  EXPECT_EQ(Run({"key", "remove", bad}).code, ExitCode::kOk);
  EXPECT_EQ(Run({"key", "list"}).code, ExitCode::kOk);
}

TEST_F(ProgramTest, ForgetAndPruneFreeSpaceAndCheckAgrees) {
  Backup();
  image_ = support::Noise(kImageBytes, 2);
  Write("image", image_);
  Backup();
  const Json planned = Run({"forget", "--keep-last", "1", "--dry-run", "--json"}).Result();
  EXPECT_EQ(GetInt(planned, {"removed"}), 1);
  EXPECT_EQ(Run({"snapshots", "--json"}).Result().size(), 2U);
  EXPECT_THAT(Run({"forget", "--keep-last", "1"}).out,
              HasSubstr("removed 1 snapshot; csi-delta prune frees their space\n"));
  EXPECT_EQ(Run({"snapshots", "--json"}).Result().size(), 1U);
  const Outcome unmatched = Run({"forget", "--host", "other", "--keep-last", "1"});
  EXPECT_EQ(unmatched.code, ExitCode::kOk);
  EXPECT_THAT(unmatched.error, HasSubstr("no snapshot matches"));
  // Left by a writer that died, and a stranger's.
  const std::string id(64, 'a');
  std::filesystem::create_directories(Path("repo/mydocs"));
  for (const std::string& name :
       {"repo/snapshots/" + id + "-tmp-1", std::string("repo/data/report-tmp-2024"),
        "repo/mydocs/" + id + "-tmp-1"}) {
    Write(name, "half");
    std::filesystem::last_write_time(
        Path(name), std::filesystem::file_time_type::clock::now() - std::chrono::hours(72));
  }
  const Outcome pruned = Run({"prune", "--max-unused", "0", "--json"});
  ASSERT_EQ(pruned.code, ExitCode::kOk) << pruned.error;
  EXPECT_FALSE(std::filesystem::exists(Path("repo/snapshots/" + id + "-tmp-1")));
  EXPECT_TRUE(std::filesystem::exists(Path("repo/data/report-tmp-2024")));
  EXPECT_TRUE(std::filesystem::exists(Path("repo/mydocs/" + id + "-tmp-1")));
  EXPECT_GT(GetInt(pruned.Result(), {"bytes_freed"}), static_cast<int64_t>(30 * kChunk));
  const Outcome checked = Run({"check", "--read-data", "--json"});
  EXPECT_EQ(checked.code, ExitCode::kOk) << checked.out;
  ASSERT_EQ(Run({"restore", "latest", "-t", Path("target")}).code, ExitCode::kOk);
  EXPECT_EQ(Read("target"), image_);
}

TEST_F(ProgramTest, WhatACheckVerifiedIsInTheRepository) {
  table_columns = 120;
  Backup();
  const auto snapshots = [this] { return Run({"snapshots", "--json"}).Result(); };
  EXPECT_FALSE(snapshots()[0].contains("verified_at"));
  EXPECT_THAT(Run({"show", "latest"}).out, HasSubstr("Verified        not known\n"));
  const std::vector<std::string> check = {"check", "--read-data-older-than", "30d"};
  const Outcome first = Run(check);
  EXPECT_EQ(first.code, ExitCode::kOk) << first.error;
  EXPECT_THAT(first.out, AllOf(HasSubstr("all data was read: "), Not(HasSubstr("skipped"))));
  EXPECT_TRUE(ParseRfc3339(GetString(snapshots()[0], {"verified_at"})).has_value());
  EXPECT_THAT(Run({"show", "latest", "--json"}).out, HasSubstr("\"verified_at\":\"20"));
  EXPECT_THAT(Run({"show", "latest"}).out, ContainsRegex("\nVerified        20..-..-.. ..:.. "));
  EXPECT_THAT(Run({"snapshots"}).out,
              AllOf(ContainsRegex("Verified +Tags\n"),
                    HasSubstr("\n1 of them verified, the oldest 0m ago\n")));
  EXPECT_THAT(Run(check).out,
              ContainsRegex("data read: 0 of [0-9]+ packs, 0 B\n"
                            "skipped: [0-9]+ packs, .*, verified not so long ago\n"));
  ChangeChunk(7);
  Backup();
  EXPECT_THAT(Run({"snapshots"}).out, HasSubstr("\n1 of them verified"));
  const Json part =
      Run({"check", "--json", "--read-data-older-than=1m", "--read-data-subset=1B"}).Result();
  EXPECT_EQ(GetInt(part, {"packs_read"}), 1);
  EXPECT_GT(GetInt(part, {"packs_skipped_recent"}), 0);
  EXPECT_GT(GetInt(part, {"packs_skipped_subset"}), 0);
  EXPECT_EQ(GetInt(part, {"packs_read"}) + GetInt(part, {"packs_skipped_recent"}) +
                GetInt(part, {"packs_skipped_subset"}),
            GetInt(part, {"packs"}));
  EXPECT_EQ(GetString(part, {"not_recorded"}), "");
  EXPECT_EQ(Run({"check", "--read-data-older-than", "soon"}).code, ExitCode::kFailed);
}

TEST_F(ProgramTest, CopyTakesSnapshotsElsewhere) {
  Backup();
  ASSERT_EQ(Run({"init", "-r", Path("other")}).code, ExitCode::kOk);
  const Outcome copied = Run({"copy", "-r", Path("other"), "--from-repo", Path("repo"), "--json"});
  ASSERT_EQ(copied.code, ExitCode::kOk) << copied.error;
  EXPECT_EQ(copied.Result()["snapshots"].size(), 1U);
  variables["RESTIC_FROM_REPOSITORY"] = Path("repo");
  variables["RESTIC_FROM_PASSWORD"] = "wrong";
  EXPECT_EQ(Run({"copy", "-r", Path("other")}).code, ExitCode::kWrongPassword);
  variables["RESTIC_FROM_PASSWORD"] = "secret";
  const Outcome again = Run({"copy", "-r", Path("other"), "--json"});
  ASSERT_EQ(again.code, ExitCode::kOk) << again.error;
  EXPECT_TRUE(GetBool(again.Result()["snapshots"][0], {"was_there"}));
  ASSERT_EQ(Run({"restore", "latest", "-r", Path("other"), "-t", Path("target")}).code,
            ExitCode::kOk);
  EXPECT_EQ(Read("target"), image_);
}

TEST_F(BareProgramTest, TooManyOrTooFewArguments) {
  const Outcome nothing = Run({});
  EXPECT_EQ(nothing.code, ExitCode::kFailed);
  EXPECT_THAT(nothing.error, HasSubstr("usage: csi-delta VERB"));
  EXPECT_THAT(nothing.out, IsEmpty());
  EXPECT_EQ(Run({"backup"}).code, ExitCode::kFailed);
  EXPECT_EQ(Run({"restore", "latest"}).code, ExitCode::kFailed);
  EXPECT_EQ(Run({"--version"}).out, ProgramVersion() + "\n");
  EXPECT_EQ(Run({"version"}).out, ProgramVersion() + "\n");
  EXPECT_EQ(Run({"version", "--repo", "x"}).code, ExitCode::kFailed);
  EXPECT_THAT(Run({"list", "snapshots"}).error, HasSubstr("there is no verb list"));
  EXPECT_THAT(Run({"undo", "forget", "latest"}).error, HasSubstr("no such verb: undo"));
  EXPECT_THAT(Run({"help", "backup"}).out, HasSubstr("usage: csi-delta backup"));
  EXPECT_EQ(Run({"--help"}).code, ExitCode::kOk);
}

TEST(ExamplesTest, ThoseOfARepositoryRun) {
  ProgramRunner program;
  program.variables = {{"RESTIC_PASSWORD", "secret"}, {"RESTIC_REPOSITORY", program.Path("repo")}};
  std::vector<std::pair<std::string, std::string>> ours = {
      {"/dev/vg/orders", program.Path("image")},
      {"/srv/backups", program.Path("other")},
      {"orders.img", program.Path("restored")}};
  program.Init();
  ASSERT_EQ(program.Run({"init", "--repo", program.Path("other")}).code, ExitCode::kOk);
  for (const std::string id : {"8ab6fc6f", "1c44d09e"}) {
    program.Write("image", id + support::Noise(2 * kChunk, 1));
    const Outcome saved = program.Run({"backup", program.Path("image"), "--path", "/orders"});
    ASSERT_EQ(saved.code, ExitCode::kOk) << saved.error;
    ours.emplace_back(id, program.Run({"snapshots", "--json"}).Result().back()["id"]);
  }
  ASSERT_EQ(program.Run({"backup", program.Path("image"), "--repo", program.Path("other")}).code,
            ExitCode::kOk);
  int64_t runs = 0;
  for (const std::unique_ptr<Command>& command : AllCommands()) {
    const VerbSyntax verb = command->Declare();
    for (const std::string& example : verb.examples) {
      // No cluster, bucket, list, report, second password or lost config is there.
      const std::vector<std::string> missing = {
          "--pvc", "--upload", "--volume-snapshot", "s3",       "--extents", "as-of", "init",
          "key",   "config",   "--from-json",       "--cluster"};
      const auto needs = [&](const std::string& what) { return absl::StrContains(example, what); };
      const bool is_local =
          verb.family == VerbFamily::kRepository || verb.family == VerbFamily::kNewRepository;
      if (is_local && absl::c_none_of(missing, needs)) {
        const std::string line = absl::StrReplaceAll(
            example.substr(0, std::min(example.find("  #"), example.find(" > "))), ours);
        const Outcome outcome = program.Run(*SplitCommand(line));
        EXPECT_EQ(outcome.code, ExitCode::kOk) << line << "\n" << outcome.error;
        ++runs;
      }
    }
  }
  EXPECT_GE(runs, 20);
}

TEST_F(BareProgramTest, AVariableOfResticThatIsNotReadIsNamed) {
  variables["RESTIC_COMPRESSION"] = "off";
  EXPECT_THAT(Run({"init"}).error, HasSubstr("RESTIC_COMPRESSION is set, but not read: give "
                                             "--compression\n"));
  EXPECT_THAT(Run({"snapshots", "--quiet"}).error, IsEmpty());
  EXPECT_THAT(Run({"version"}).error, IsEmpty());
}

TEST_F(BareProgramTest, AnswersTheVerbsOfRestic) {
  for (const char* verb : {"unlock", "dump", "find", "rebuild-index", "mount", "rewrite", "cache",
                           "tag", "cat", "recover", "list", "migrate", "self-update", "generate"}) {
    const Outcome outcome = Run({verb});
    EXPECT_EQ(outcome.code, ExitCode::kFailed);
    EXPECT_THAT(outcome.error, HasSubstr(absl::StrCat("there is no verb ", verb, ": ")));
  }
}

// "csi-delta ls latest | head -1", and a full disk behind ">".
TEST_F(BareProgramTest, AReaderThatGoesAwayIsNoFailureAndAFullDiskNoDamage) {
  for (const int error : {EPIPE, ENOSPC}) {
    std::string said;
    const ProgramEnvironment environment{.get = [](const char*) -> const char* { return nullptr; },
                                         .out =
                                             [error](absl::string_view) {
                                               errno = error;
                                               return false;
                                             },
                                         .error =
                                             [&said](absl::string_view bytes) {
                                               said.append(bytes.data(), bytes.size());
                                               return true;
                                             }};
    const std::vector<std::string> words = {"version"};
    const ExitCode code = RunProgram(CallContext(), words, environment);
    EXPECT_EQ(code, error == EPIPE ? ExitCode::kOk : ExitCode::kFailed);
    EXPECT_EQ(said, error == EPIPE ? ""
                                   : "csi-delta: done, but the result could not be written to "
                                     "standard output: No space left on device\n");
  }
}

TEST_F(BareProgramTest, WithJsonAnErrorIsAnObjectOnStandardError) {
  const Outcome none = Run({"snapshots", "--json"});
  EXPECT_THAT(none.out, IsEmpty());
  const auto error = ParseJsonObject(none.error);
  ASSERT_THAT(error, support::IsOk());
  EXPECT_EQ(GetString(*error, {"message_type"}), "exit_error");
  EXPECT_EQ(GetInt(*error, {"code"}), 10);
  EXPECT_THAT(GetString(*error, {"message"}), HasSubstr("there is no repository"));
  EXPECT_THAT(ParseJsonObject(Run({"snapshots", "--json", "--no-such-flag"}).error),
              support::IsOk());
  const std::string hostile = "\x1b[31m\u202e";  // A terminal would obey.
  const auto escaped = ParseJsonObject(Run({hostile, "--json"}).error);
  ASSERT_THAT(escaped, support::IsOk());
  EXPECT_THAT(GetString(*escaped, {"message"}), HasSubstr(hostile));
  EXPECT_THAT(Run({hostile, "--json"}).error, Not(HasSubstr("\u202e")));
}

TEST_F(ProgramTest, TheNextStepFitsTheVerb) {
  const auto says = [this](const std::vector<std::string>& words) { return Run(words).error; };
  const std::string from_none = says({"copy", "--from-repo", Path("none"), "-r", Path("repo")});
  EXPECT_THAT(from_none, HasSubstr("--from-repo"));
  EXPECT_THAT(from_none, Not(HasSubstr("csi-delta init")));
  Write("wrong", "wrong");
  EXPECT_THAT(says({"copy", "--from-repo", Path("repo"), "--from-password-file", Path("wrong")}),
              AllOf(HasSubstr(Path("repo")), HasSubstr("--from-password-file")));
  EXPECT_THAT(says({"backup", Path("no-such-image")}), Not(HasSubstr("correct it")));
  for (const auto& entry : std::filesystem::directory_iterator(Path("repo/keys"))) {
    std::filesystem::permissions(entry, std::filesystem::perms::owner_all);
    std::ofstream(entry.path()) << "no key";
  }
  EXPECT_THAT(says({"snapshots"}),
              AllOf(HasSubstr("put back a copy of keys/"), Not(HasSubstr("csi-delta check"))));
}

TEST(ExplainTest, NamesNoStepThatIsWrongForSomeVerb) {
  const auto explain = [](const absl::Status& status) { return Explain(status, "s3:x"); };
  EXPECT_EQ(explain(absl::UnavailableError("away")), "away; try again later");
  EXPECT_EQ(explain(absl::PermissionDeniedError("make x: Read-only file system")),
            "make x: Read-only file system");
  EXPECT_EQ(explain(absl::InvalidArgumentError("bad size")), "bad size");
  EXPECT_EQ(explain(absl::CancelledError("list snapshots: stop requested")), "interrupted");
  EXPECT_EQ(explain(absl::DataLossError("pack x")),
            "pack x; csi-delta check --read-data finds what else is damaged");
  EXPECT_EQ(Explain(absl::DataLossError("the answer of a driver"), ""), "the answer of a driver");
}

// csi-delta mover-key export > keys
TEST(MakePrivateTest, AFileBecomesReadableForItsOwnerAlone) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/keys";
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT, 0644));
  ASSERT_TRUE(file.valid());
  EXPECT_THAT(MakePrivate(file.get()), support::IsOk());
  struct stat info {};
  ASSERT_EQ(::fstat(file.get(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  EXPECT_THAT(MakePrivate(writing.get()), support::IsOk());
}

}  // namespace
}  // namespace csidelta::cli::program_test
