// csi-delta report: of repositories, and of its own JSON. That of a cluster:
// cluster_repository_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cli/program_runner.h"

namespace csidelta::cli::report_verb_test {
namespace {

using testing::HasSubstr;
using testing::Not;

class ReportVerbTest : public testing::Test {
 protected:
  ReportVerbTest() {
    program_.variables = {{"RESTIC_PASSWORD", "secret"}};
    program_.Write("image", std::string(4096, 'x'));
    for (const char* volume : {"a", "b"}) {
      std::filesystem::create_directories(Folder(volume));
      EXPECT_EQ(program_.Run({"init", "--repo", Folder(volume)}).code, ExitCode::kOk);
      Backup(volume);
    }
    Backup("a");
  }

  std::string Folder(const std::string& volume) const {
    return program_.Path(absl::StrCat("mover/", volume));
  }
  void Backup(const std::string& volume) const {
    EXPECT_EQ(program_
                  .Run({"backup", program_.Path("image"), "--repo", Folder(volume), "--host", "c1",
                        "--path", "/shop/" + volume})
                  .code,
              ExitCode::kOk);
  }
  Outcome Report(std::vector<std::string> words, const std::string& folder = "mover") const {
    words.insert(words.begin(), {"report", "--repo", program_.Path(folder)});
    return program_.Run(words);
  }

  ProgramRunner program_;
};

TEST_F(ReportVerbTest, ReadsAllRepositoriesOfAFolder) {
  const Outcome outcome = Report({"--json", "--html", program_.Path("report.html")});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const Json json = outcome.Result();
  ASSERT_EQ(json["volumes"].size(), 2U);
  EXPECT_EQ(json["volumes"][0]["name"], "c1:/shop/a");
  ASSERT_EQ(json["volumes"][0]["backups"].size(), 2U);
  const Json& backup = json["volumes"][0]["backups"][0];
  EXPECT_EQ(backup["mode"], "full");
  EXPECT_EQ(backup["reason"], "no-parent");
  EXPECT_EQ(backup["read_bytes"], 4096);
  EXPECT_EQ(backup["size_bytes"], 4096);
  EXPECT_GT(backup["stored_bytes"], 0);
  EXPECT_EQ(json["volumes"][0]["backups"][1]["base"], backup["snapshot"]);
  EXPECT_THAT(program_.Read("report.html"), HasSubstr("c1:/shop/b"));
}

TEST_F(ReportVerbTest, ItsOwnJsonIsTheSamePage) {
  const Outcome first = Report({"--json", "--html", program_.Path("first.html")});
  program_.Write("report.json", first.out);
  const Outcome again = program_.Run({"report", "--from-json", program_.Path("report.json"),
                                      "--html", program_.Path("again.html"), "--json"});
  EXPECT_EQ(again.code, ExitCode::kOk) << again.error;
  EXPECT_EQ(again.out, first.out);
  EXPECT_EQ(program_.Read("again.html"), program_.Read("first.html"));
  program_.Write("report.json", "{}");
  EXPECT_THAT(program_.Run({"report", "--from-json", program_.Path("report.json")}).error,
              HasSubstr("it is not a report of schema_version 1"));
  EXPECT_THAT(program_.Run({"report", "--from-json", program_.Path("none")}).error,
              HasSubstr("No such file"));
}

TEST_F(ReportVerbTest, NotesWhatCannotBeRead) {
  std::filesystem::remove_all(Folder("b/keys"));
  for (const auto& file : std::filesystem::directory_iterator(Folder("a/snapshots"))) {
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    std::filesystem::resize_file(file, 10);
    break;
  }
  const Outcome outcome = Report({});
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete) << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("is damaged"));
  EXPECT_THAT(outcome.error, HasSubstr("not read: "));
  EXPECT_THAT(outcome.out, HasSubstr("The volume has its newest backup"));
  EXPECT_EQ(Report({}, "none").code, ExitCode::kNoRepository);
}

TEST_F(ReportVerbTest, DataThatIsLostIsABackupThatCannotBeRestored) {
  std::filesystem::remove_all(Folder("b/data"));
  std::filesystem::create_directories(Folder("b/data"));
  const Outcome outcome = Report({}, "mover/b");
  EXPECT_THAT(outcome.out, HasSubstr("1 backup cannot be restored; 1 of 1 volume has no good"));
  EXPECT_THAT(outcome.out, HasSubstr("csi-delta check names what helps"));
}

TEST_F(ReportVerbTest, RefusesWhatItCannotDo) {
  EXPECT_THAT(Report({"--since", "7w"}).error, HasSubstr("--since"));
  EXPECT_THAT(Report({"--since", "0d"}).error, HasSubstr("at least an hour"));
  EXPECT_THAT(Report({"--since", "9y"}).error, HasSubstr("at most 1100 days"));
  EXPECT_THAT(Report({"--from-json", "x", "--cluster"}).error, HasSubstr("leave out --cluster"));
  EXPECT_THAT(Report({"--html", program_.Path("no/folder")}).error, HasSubstr("No such file"));
  EXPECT_THAT(Report({"-n", "other"}).out, Not(HasSubstr("good backup")));
}

}  // namespace
}  // namespace csidelta::cli::report_verb_test
