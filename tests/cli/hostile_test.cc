// A repository from an attacker, read by the program itself: it says what is wrong
// and ends in order, in little memory, and its words do nothing to a terminal.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "repository/blob_writer.h"
#include "repository/compression.h"
#include "repository/repository.h"
#include "storage/file_object_store.h"
#include "tests/support/await.h"
#include "tests/support/paths.h"
#include "tests/support/sanitized.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unproven.h"

namespace csidelta::cli::hostile_test {
namespace {

using repository::BlobType;
using repository::FileKind;
using repository::Id;
using support::IsOk;
using testing::HasSubstr;

constexpr int64_t kMemoryBytesMax = int64_t{320} << 20;
// What the kernel lets it have: so that a test that fails does not take the machine with it.
constexpr rlim_t kDataBytesMax = rlim_t{2} << 30;

// Names that do something to a terminal: clear it, set its title, begin a new line, a sequence in
// one character, letters from right to left.
constexpr char kEvilText[] = "\x1B[2J\x1B]0;title\x07\r\xC2\x9B\x33\x31m\xE2\x80\xAEgpj\x7F";

struct Outcome {
  int code = -1;  // Or minus the signal that ended it.
  int64_t peak_bytes = 0;
  std::string out;
  std::string error;
};

class HostileProgramTest : public testing::Test {
 protected:
  HostileProgramTest() {
    ::setenv("RESTIC_PASSWORD", "secret", 1);
    ::setenv("RESTIC_REPOSITORY", absl::StrCat(folder_.path(), "/repo").c_str(), 1);
    std::ofstream(absl::StrCat(folder_.path(), "/image")) << std::string(1 << 20, 'x');
    EXPECT_EQ(Run({"init"}).code, 0);
    EXPECT_EQ(Run({"backup", absl::StrCat(folder_.path(), "/image")}).code, 0);
    store_ = std::make_unique<storage::FileObjectStore>(absl::StrCat(folder_.path(), "/repo"),
                                                        Random::Real());
    auto repository = repository::Repository::Open(ctx_, *store_, "secret", {});
    EXPECT_THAT(repository, IsOk());
    repository_ = *std::move(repository);
  }

  Outcome Run(std::vector<std::string> words) const {
    words.insert(words.begin(), support::BuiltProgram("csi-delta"));
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    const std::string out = absl::StrCat(folder_.path(), "/out");
    const std::string error = absl::StrCat(folder_.path(), "/error");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
      ::dup2(::open(error.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      const rlimit limit{.rlim_cur = kDataBytesMax, .rlim_max = kDataBytesMax};
      if (support::kSanitizer == nullptr) {
        ::setrlimit(RLIMIT_DATA, &limit);
      }
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    int state = 0;
    rusage usage{};
    const support::AwaitEnd end("csi-delta to end");
    EXPECT_EQ(::wait4(pid, &state, 0, &usage), pid);
    return {.code = WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state),
            .peak_bytes = int64_t{usage.ru_maxrss} << 10,
            .out = Text(out),
            .error = Text(error)};
  }

  static std::string Text(const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  // Neither killed nor greedy, and nothing a terminal obeys.
  static void ExpectInOrder(const Outcome& outcome, const std::string& what) {
    EXPECT_GE(outcome.code, 0) << what;
    if (support::AssertsUnsanitized("the program stays below 320 MiB")) {
      EXPECT_LT(outcome.peak_bytes, kMemoryBytesMax) << what;
    }
    for (const std::string* text : {&outcome.out, &outcome.error}) {
      for (const char c : *text) {
        ASSERT_TRUE(static_cast<uint8_t>(c) >= 0x20 || c == '\n') << what << "\n" << *text;
        ASSERT_NE(c, '\x7F') << what;
      }
      EXPECT_THAT(*text, testing::Not(HasSubstr("\xC2\x9B"))) << what;
      EXPECT_THAT(*text, testing::Not(HasSubstr("\xE2\x80\xAE"))) << what;
    }
  }

  // A snapshot of these trees, the root last.
  Id SealTrees(const std::vector<std::string>& texts) {
    repository::BlobWriter writer(ctx_, *repository_, {});
    for (const std::string& text : texts) {
      EXPECT_THAT(writer.AddBlob(BlobType::kTree, Id::Of(text), text), IsOk());
    }
    EXPECT_THAT(writer.Flush(), IsOk());
    repository::RepoSnapshot snapshot;
    snapshot.time = absl::FromUnixSeconds(1'700'000'000);
    snapshot.tree = Id::Of(texts.back());
    snapshot.hostname = kEvilText;
    snapshot.username = kEvilText;
    snapshot.paths = {absl::StrCat("/", kEvilText, "\n")};
    snapshot.tags = {kEvilText};
    const absl::StatusOr<Id> id = repository_->SaveSnapshot(ctx_, snapshot, support::Unproven());
    EXPECT_THAT(id, IsOk());
    return id.value_or(Id());
  }

  // `count` bytes of text that repeat and a few KiB in the store.
  Id SealBomb(FileKind kind, const std::string& head, const std::string& repeated,
              std::size_t count) {
    std::string text = head;
    while (text.size() < count) {
      text += repeated;
    }
    const std::string sealed = repository::Sealer(repository_->master_key(), SecureRandom::Real())
                                   .Seal("\x02" + repository::Compressor(1).Compress(text));
    const Id id = Id::Of(sealed);
    EXPECT_THAT(store_->Put(ctx_, repository::FileKey(kind, id), sealed, {}), IsOk());
    return id;
  }

  CallContext ctx_;
  const support::ScratchFolder folder_;
  std::unique_ptr<storage::ObjectStore> store_;
  std::unique_ptr<repository::Repository> repository_;
};

TEST_F(HostileProgramTest, NamesDoNothingToATerminal) {
  const std::string below = "{\"nodes\":[]}\n";
  const auto directory = [&](const std::string& name) {
    return absl::StrCat("{\"name\":\"", name, "\",\"type\":\"dir\",\"subtree\":\"",
                        Id::Of(below).Hex(), "\"}");
  };
  const Id evil = SealTrees(
      {below, absl::StrCat("{\"nodes\":[", directory("\\\\n\\\\x1b[2J\\\\u009b31m\\\\x7f"), ",",
                           directory("plain"), ",", directory("\\\\u202egpj\\\\xff"), "]}")});
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"ls", evil.Hex()},
           {"ls", "-l", evil.Hex()},
           {"ls", "--json", evil.Hex()},
           {"snapshots"},
           {"snapshots", "--json"},
           {"stats"},
           {"diff", evil.Hex(), evil.Hex()},
           {"restore", evil.Hex(), "--target", absl::StrCat(folder_.path(), "/target")},
           {"check"},
           {"key", "list"},
           {kEvilText}}) {
    const Outcome outcome = Run(words);
    ExpectInOrder(outcome, words.front());
  }
  const Outcome listed = Run({"ls", evil.Hex()});
  EXPECT_EQ(listed.code, 0) << listed.error;
  EXPECT_THAT(listed.out, HasSubstr("/\\u000a\\u001b[2J\\u009b31m\\u007f\n/plain\n"));
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(folder_.path(), "/target")));
}

// Kilobytes that want to be gigabytes.
TEST_F(HostileProgramTest, SmallHostileObjectsStaySmallInMemory) {
  const std::size_t bomb_bytes = std::size_t{400} << 20;
  const Id values = SealBomb(FileKind::kSnapshot, "{\"a\":[0", ",0", bomb_bytes);
  const Id nested =
      SealBomb(FileKind::kSnapshot, "{\"a\":[0", ",{\"a\":{}}", std::size_t{15} << 20);
  const std::string key =
      absl::StrCat("{\"kdf\":\"scrypt\",\"N\":1073741824,\"r\":8,\"p\":1,\"salt\":\"",
                   std::string(88, 'A'), "\",\"data\":\"", std::string(88, 'A'), "\"}");
  ASSERT_THAT(store_->Put(ctx_, absl::StrCat("keys/", std::string(64, '0')), key, {}), IsOk());
  // Trees that the index says are half a gigabyte each, in a pack of a few bytes.
  const Id snapshot = SealTrees({"{\"nodes\":[]}\n"});
  std::vector<repository::PackEntry> entries;
  for (uint32_t i = 0; i < 16; ++i) {
    entries.push_back(
        {.handle = {BlobType::kTree, Id::Of(absl::StrCat(i))},
         .span = {.offset_bytes = 0, .sealed_bytes = 64, .uncompressed_bytes = 500'000'000}});
  }
  entries.front().handle.id = Id::Of("{\"nodes\":[]}\n");
  ASSERT_THAT(repository_->SaveFile(ctx_, FileKind::kIndex,
                                    repository::EncodeIndex({{{Id::Of("pack"), entries}}})),
              IsOk());
  const std::string target = absl::StrCat(folder_.path(), "/target");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"ls", snapshot.Hex()},
           {"ls", values.Hex()},
           {"check", "--read-data"},
           {"restore", "latest", "--target", target},
           {"prune", "--retry-lock", "0"},
           {"backup", absl::StrCat(folder_.path(), "/image"), "--retry-lock", "0"}}) {
    ExpectInOrder(Run(words), words.front());
  }
  const Outcome listed = Run({"snapshots"});
  EXPECT_EQ(listed.code, 3);  // Incomplete: it names those that it left out.
  EXPECT_THAT(listed.error, HasSubstr(values.ShortHex()));
  EXPECT_THAT(listed.error, HasSubstr(nested.ShortHex()));
}

}  // namespace
}  // namespace csidelta::cli::hostile_test
