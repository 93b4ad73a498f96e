#include "cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace csidelta::cli::arguments_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A small program: a verb with words, one of a group, one without anything.
class ArgumentsTest : public testing::Test {
 protected:
  ArgumentsTest() {
    syntax_.shared.Add("--json", "as JSON", json_);
    syntax_.shared.Add("-v,--verbose", "more", verbose_);
    ArgumentTable repository;
    repository.Add("-r,--repo", "REPO", "where", repo_);
    repository.Add("-o,--option", "X", "a setting", option_);
    syntax_.of.emplace_back(VerbFamily::kRepository, std::move(repository));
    ArgumentTable cluster;
    cluster.Add("-n,--namespace", "NS", "of what", namespace_);
    cluster.Add("-o,--output", "FORM", "how it is printed", output_);
    syntax_.of.emplace_back(VerbFamily::kCluster, std::move(cluster));
    ArgumentTable save;
    save.AddPositional("DEVICE", "what to read", device_);
    save.AddList("--tag", "TAG", "a tag", tags_);
    save.AddBytes("--chunk-size", "how large", chunk_bytes_);
    save.AddNumber("-n,--count", "N", "how many", 1, 10, count_);
    save.AddChoice("--mode", {"fast", "slow"}, "how", mode_);
    save.AddWait("--wait", "how long", wait_);
    ArgumentTable add;
    add.AddPositionals("ID", "which", 0, 2, ids_);
    verbs_.push_back(
        {"save", "Save a thing", "At length.", std::move(save), VerbFamily::kRepository});
    verbs_.push_back({"key add", "Add a key", "", std::move(add), VerbFamily::kRepository});
    ArgumentTable list;
    list.AddPositionals("NAME", "which", 0, 2, ids_);
    verbs_.push_back({"snapshot list", "List", "", std::move(list), VerbFamily::kCluster});
    verbs_.push_back({"version", "Say the version", "", {}});
  }

  absl::StatusOr<ParsedLine> Parse(std::vector<std::string> words) {
    return ParseCommandLine(words, syntax_, verbs_);
  }

  std::string repo_;
  bool json_ = false, verbose_ = false;
  std::string device_;
  std::vector<std::string> tags_;
  int64_t chunk_bytes_ = 0;
  int64_t count_ = 0;
  std::string mode_;
  std::optional<absl::Duration> wait_;
  std::vector<std::string> ids_;
  std::string option_, namespace_, output_;
  ProgramSyntax syntax_;
  std::vector<VerbSyntax> verbs_;
};

TEST_F(ArgumentsTest, GlobalFlagsStandBeforeOrAfterTheVerb) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-r", "here", "--json", "save", "disk"},
        {"save", "-r", "here", "disk", "--json"},
        {"--json", "save", "disk", "--repo=here"},
        {"save", "disk", "--json", "-rhere"}}) {
    repo_.clear();
    json_ = false;
    device_.clear();
    const absl::StatusOr<ParsedLine> parsed = Parse(words);
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(parsed->verb, "save");
    EXPECT_EQ(repo_, "here");
    EXPECT_TRUE(json_);
    EXPECT_EQ(device_, "disk");
  }
}

TEST_F(ArgumentsTest, VerbsOfAGroupTakeGlobalFlagsToo) {
  const absl::StatusOr<ParsedLine> parsed = Parse({"key", "--json", "add", "a", "-r", "here", "b"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->verb, "key add");
  EXPECT_THAT(ids_, ElementsAre("a", "b"));
  EXPECT_EQ(repo_, "here");
  EXPECT_TRUE(json_);
}

TEST_F(ArgumentsTest, ValuesOfAllKinds) {
  ASSERT_THAT(Parse({"save", "--tag", "a", "disk", "--tag", "b", "--chunk-size", "1MiB", "-n", "3",
                     "--mode", "slow", "--wait", "5m"}),
              IsOk());
  EXPECT_THAT(tags_, ElementsAre("a", "b"));
  EXPECT_EQ(chunk_bytes_, 1 << 20);
  EXPECT_EQ(count_, 3);
  EXPECT_EQ(mode_, "slow");
  EXPECT_EQ(wait_, absl::Minutes(5));
  EXPECT_EQ(device_, "disk");
}

TEST_F(ArgumentsTest, TheLastOfARepeatedFlagCounts) {
  ASSERT_THAT(Parse({"save", "disk", "-n", "3", "-n", "4", "-r", "a", "--repo", "b"}), IsOk());
  EXPECT_EQ(count_, 4);
  EXPECT_EQ(repo_, "b");
}

TEST_F(ArgumentsTest, ShortFlagsShareADashAndTheirValueMayFollowAnEqualsSign) {
  ASSERT_THAT(Parse({"save", "disk", "-vr=here", "-n=3"}), IsOk());
  EXPECT_TRUE(verbose_);
  EXPECT_EQ(repo_, "here");
  EXPECT_EQ(count_, 3);
  ASSERT_THAT(Parse({"save", "disk", "--verbose=false"}), IsOk());
  EXPECT_FALSE(verbose_);
  EXPECT_THAT(Parse({"save", "disk", "-vz"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("argument: -z;")));
}

TEST_F(ArgumentsTest, AnEmptyValueCountsAndTheNextArgumentStays) {
  repo_ = "before";
  ASSERT_THAT(Parse({"save", "--repo=", "disk", "--tag=", "--tag", "", "--json"}), IsOk());
  EXPECT_EQ(repo_, "");
  EXPECT_THAT(tags_, ElementsAre("", ""));
  EXPECT_EQ(device_, "disk");
  EXPECT_TRUE(json_);
}

TEST_F(ArgumentsTest, ADashAndAVerbsNameCanBeArguments) {
  ASSERT_THAT(Parse({"-r", "-", "save", "version"}), IsOk());
  EXPECT_EQ(repo_, "-");
  EXPECT_EQ(device_, "version");
  ASSERT_THAT(Parse({"save", "--", "--odd"}), IsOk());
  EXPECT_EQ(device_, "--odd");
  ASSERT_THAT(Parse({"save", "[a,b]", "--tag", "[c,d]"}), IsOk());
  EXPECT_EQ(device_, "[a,b]");
  EXPECT_THAT(tags_, ElementsAre("[c,d]"));
}

TEST_F(ArgumentsTest, AFamilyGivesEqualNamesItsOwnMeaning) {
  ASSERT_THAT(Parse({"-o", "a", "save", "disk"}), IsOk());
  EXPECT_EQ(option_, "a");
  EXPECT_EQ(output_, "");
  ASSERT_THAT(Parse({"-n", "shop", "snapshot", "-o", "json", "list", "save"}), IsOk());
  EXPECT_EQ(namespace_, "shop");
  EXPECT_EQ(output_, "json");
  EXPECT_EQ(option_, "a");
  EXPECT_THAT(ids_, ElementsAre("save"));
}

TEST_F(ArgumentsTest, TheVerbIsTheFirstArgumentThatIsNotTheValueOfAFlag) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-r", "snapshot", "save", "disk"},
        {"--repo=key", "save", "disk"}}) {
    const absl::StatusOr<ParsedLine> parsed = Parse(words);
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(parsed->verb, "save");
  }
}

TEST_F(ArgumentsTest, HelpAndVersionAreVerbsToo) {
  EXPECT_THAT(Parse({"help", "sav"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean save")));
  const absl::StatusOr<ParsedLine> version = Parse({"--version"});
  ASSERT_THAT(version, IsOk());
  EXPECT_EQ(version->verb, "version");
}

TEST_F(ArgumentsTest, NoVerbAtAll) {
  const absl::StatusOr<ParsedLine> parsed = Parse({"--json"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->verb, "");
  EXPECT_FALSE(parsed->help);
}

TEST_F(ArgumentsTest, HelpIsAnsweredWhateverElseIsMissing) {
  for (const auto& [words, verb] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"help"}, ""},
           {{"help", "save"}, "save"},
           {{"help", "key", "add"}, "key add"},
           {{"help", "key"}, "key"},
           {{"--help"}, ""},
           {{"save", "--help"}, "save"},
           {{"save", "-h", "--nonsense"}, "save"},
           {{"--help", "save"}, "save"},
           {{"key", "add", "-h"}, "key add"},
           {{"key", "--help"}, "key"}}) {
    const absl::StatusOr<ParsedLine> parsed = Parse(words);
    ASSERT_THAT(parsed, IsOk());
    EXPECT_TRUE(parsed->help);
    EXPECT_EQ(parsed->verb, verb);
  }
}

TEST_F(ArgumentsTest, RefusalsSayWhatAndWhereToRead) {
  struct Case {
    std::vector<std::string> words;
    std::string message;
  };
  for (const Case& one :
       {Case{{"sav"}, "no such verb: sav; did you mean save; see csi-delta --help"},
        {{"keys", "list"}, "no such verb: keys; did you mean key; see"},
        {{"key", "ad"}, "no such verb: key ad; did you mean key add; see"},
        {{"elsewhere"}, "no such verb: elsewhere; see csi-delta --help"},
        {{"list", "save"}, "no such verb: list"},
        {{"save", "disk", "-r"}, "-r needs a value; see csi-delta save --help"},
        {{"save", "disk", "-r", "--json"}, "a dash is written -r--json"},
        {{"save", "disk", "--repo", "-x"}, "a dash is written --repo=-x"},
        {{"save", "disk", "--namespace", "x"}, "unexpected argument: --namespace"},
        {{"snapshot", "list", "--repo=x"}, "unexpected argument: --repo=x"},
        {{"version", "--repo=x"}, "unexpected argument: --repo=x"},
        {{"--nonsense", "save", "disk"}, "unexpected argument: --nonsense; see"},
        {{"save", "disk", "--nonsense"}, "unexpected argument: --nonsense; see"},
        {{"save", "disk", "-z"}, "unexpected argument: -z; see csi-delta save"},
        {{"save", "disk", "other"}, "unexpected argument: other"},
        {{"version", "disk"}, "unexpected argument: disk"},
        {{"save"}, "save needs DEVICE; see csi-delta save --help"},
        {{"key"}, "key needs a verb of its own; see csi-delta key --help"},
        {{"key", "add", "a", "b", "c"}, "unexpected argument: c"},
        {{"save", "disk", "-n"}, "see csi-delta save --help"},
        {{"save", "disk", "-n", "11"}, "--count: \"11\" is not a whole number"},
        {{"save", "disk", "-n", "x"}, "--count: \"x\" is not a whole number"},
        {{"save", "disk", "--mode", "odd"}, "\"odd\" is none of fast, slow"},
        {{"save", "disk", "--wait", "x"}, "\"x\" is not a length of time"},
        {{"save", "disk", "--chunk-size", "x"}, "\"x\" is not a number of"}}) {
    EXPECT_THAT(Parse(one.words),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(one.message)));
  }
}

TEST_F(ArgumentsTest, HelpNamesEverything) {
  const std::string help = HelpText("save", syntax_, verbs_);
  EXPECT_THAT(help, HasSubstr("usage: csi-delta save [flags] DEVICE\n"));
  for (const char* part :
       {"Save a thing.", "At length.", "-r, --repo REPO", "--json", "--tag TAG",
        "--chunk-size SIZE", "-n, --count N", "--mode fast|slow", "--wait TIME", "what to read"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
  EXPECT_THAT(HelpText("key add", syntax_, verbs_), HasSubstr("key add [flags] [ID...]\n"));
  const std::string group = HelpText("key", syntax_, verbs_);
  EXPECT_THAT(group, HasSubstr("usage: csi-delta key VERB"));
  EXPECT_THAT(group, HasSubstr("key add"));
  EXPECT_THAT(group, Not(HasSubstr("version")));
  EXPECT_THAT(HelpText("", syntax_, verbs_), HasSubstr("version"));
}

}  // namespace
}  // namespace csidelta::cli::arguments_test
