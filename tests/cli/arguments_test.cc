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
using testing::IsEmpty;
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
    cluster.Add("--mover", "NS", "whose", mover_);
    cluster.Rename("-n,--kept-by");
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
    verbs_.push_back({"snapshot show", "Show", "", {}, VerbFamily::kCluster});
    verbs_.push_back({"snapshots", "List those of the repository", "", {}});
    verbs_.push_back({"version", "Say the version", "", {}});
    verbs_.push_back({"hidden", "For Pods", "", {}});
    syntax_.topics = {{"Keeping", {{"save", ""}, {"key", "Passwords"}}},
                      {"Looking", {{"snapshot", "Copies"}, {"version", ""}}},
                      {"Others", {{"hidden", ""}}, /*in_overview=*/false}};
    syntax_.answers = {{"open", "save opens it"}};
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
  std::string option_, namespace_, output_, mover_;
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
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean save?")));
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
           {{"key", "--help"}, "key"},
           {{"help", "help"}, ""},
           {{"help", "help", "save"}, "save"},
           {{"save", "--all", "--help"}, "save"}}) {
    const absl::StatusOr<ParsedLine> parsed = Parse(words);
    ASSERT_THAT(parsed, IsOk());
    EXPECT_TRUE(parsed->help);
    EXPECT_EQ(parsed->verb, verb);
    EXPECT_FALSE(parsed->all);
  }
  EXPECT_TRUE(Parse({"help", "--all"})->all);
}

TEST_F(ArgumentsTest, AnOldNameIsUnderstoodWithANoteUnlessItMeansSomethingElse) {
  const absl::StatusOr<ParsedLine> parsed = Parse({"--kept-by", "here", "snapshot", "list"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(mover_, "here");
  EXPECT_THAT(parsed->notes, ElementsAre("--kept-by is called --mover now; the next release does "
                                         "not know the old name"));
  const absl::StatusOr<ParsedLine> taken = Parse({"snapshot", "list", "-n", "shop"});
  ASSERT_THAT(taken, IsOk());
  EXPECT_EQ(namespace_, "shop");
  EXPECT_EQ(mover_, "here");
  EXPECT_THAT(taken->notes, IsEmpty());
  EXPECT_THAT(HelpText("snapshot list", syntax_, verbs_), Not(HasSubstr("--kept-by")));
}

TEST_F(ArgumentsTest, RefusalsSayWhatAndWhereToRead) {
  struct Case {
    std::vector<std::string> words;
    std::string message;
  };
  for (const Case& one :
       {Case{{"sav"}, "no such verb: sav; did you mean save? see csi-delta --help"},
        {{"keys", "list"}, "no such verb: keys; did you mean key? see"},
        {{"key", "ad"}, "no such verb: key ad; did you mean key add? see"},
        {{"open"}, "there is no verb open: save opens it; see csi-delta --help"},
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
        {{"save", "disk", "--tags", "a"},
         "unexpected argument: --tags; did you mean --tag? see csi-delta save --help"},
        {{"save", "disk", "--moed=fast"}, "argument: --moed=fast; did you mean --mode? see"},
        {{"snapshot", "list", "--kept-bye=x"}, "argument: --kept-bye=x; see"},
        {{"key"}, "key what? add; see csi-delta key --help"},
        {{"key", "-r", "here"}, "key what? add; see csi-delta key --help"},
        {{"snapshot", "-r", "here"},
         "snapshot what? list or show; did you mean snapshots? see csi-delta snapshot --help"},
        {{"key", "add", "a", "b", "c"}, "unexpected argument: c"},
        {{"save", "disk", "-n"}, "see csi-delta save --help"},
        {{"save", "disk", "-n", "11"}, "--count: \"11\" is not a whole number"},
        {{"save", "disk", "-n", "x"}, "--count: \"x\" is not a whole number"},
        {{"save", "disk", "--mode", "odd"}, "\"odd\" is not one of fast, slow"},
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
}

TEST_F(ArgumentsTest, TheOverviewHasATopicForEachVerbAndALineForEachGroup) {
  EXPECT_EQ(HelpText("", syntax_, verbs_),
            "usage: csi-delta VERB [flags]\n\n"
            "Keeping:\n"
            "  save           Save a thing\n"
            "  key            Passwords: add\n"
            "Looking:\n"
            "  snapshot       Copies: list, show\n"
            "  version        Say the version\n\n"
            "csi-delta VERB --help: flags and examples of a verb.\n"
            "csi-delta help --all: all verbs, shared flags, exit codes.\n");
  const std::string all = HelpText("", syntax_, verbs_, kHelpColumns, /*all=*/true);
  for (const char* part :
       {"  key add ", "Others:\n", "  hidden ", "--repo REPO", "--namespace NS"}) {
    EXPECT_THAT(all, HasSubstr(part));
  }
}

TEST(ArgumentTableTest, ADefaultIsWhatTheVariableHas) {
  std::string text = "velero", empty, choice = "auto";
  int64_t bytes = int64_t{256} << 20, no_limit = -1, number = 4, zero = 0, unset = -1;
  std::optional<absl::Duration> wait = absl::Hours(4), forever;
  ArgumentTable table;
  table.Add("--text", "NS", "text", text);
  table.Add("--empty", "NS", "empty", empty);
  table.AddChoice("--choice", {"auto", "no"}, "choice", choice);
  table.AddBytes("--bytes", "bytes", bytes);
  table.AddBytes("--no-limit", "no limit", no_limit);
  table.AddNumber("--number", "N", "number", 0, 9, number);
  table.AddNumber("--zero", "N", "zero", 0, 9, zero);
  table.AddNumber("--unset", "N", "unset", 0, 9, unset);
  table.AddWait("--wait", "wait", wait);
  table.AddWait("--forever", "forever", forever);
  std::vector<std::string> texts;
  for (const Flag& flag : table.flags()) {
    texts.push_back(flag.text);
  }
  EXPECT_THAT(texts, ElementsAre("text (default: velero)", "empty", "choice (default: auto)",
                                 "bytes (default: 256MiB)", "no limit", "number (default: 4)",
                                 "zero", "unset", "wait (default: 4h)", "forever"));
}

}  // namespace
}  // namespace csidelta::cli::arguments_test
