// Opening, loading and reading keep the budget of memory, whatever a stranger put into the store;
// a budget that is too small is refused with the sentence that says how much is needed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "repository/compression.h"
#include "storage/forwarding_object_store.h"
#include "tests/repository/maintenance_fixture.h"
#include "tests/support/memory_growth.h"
#include "tests/support/sanitized.h"

namespace csidelta::repository::memory_budget_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

// What the sentence of a refusal asks for.
int64_t BytesAskedBy(const absl::Status& status) {
  constexpr absl::string_view kBefore = "a memory budget of at least ";
  const std::string message(status.message());
  const std::size_t at = message.find(std::string(kBefore));
  if (at == std::string::npos) {
    return 0;
  }
  return std::strtoll(message.c_str() + at + kBefore.size(), nullptr, 10) * kMiB;
}

// Says when some of the keys were added.
class DatedStore : public storage::ForwardingObjectStore {
 public:
  using ForwardingObjectStore::ForwardingObjectStore;

  absl::Status List(const CallContext& ctx, const std::string& prefix,
                    storage::ObjectSink sink) override {
    return ForwardingObjectStore::List(ctx, prefix, [&](const storage::ObjectInfo& object) {
      storage::ObjectInfo dated = object;
      const auto found = added_at.find(object.key);
      dated.modified_at = found == added_at.end() ? dated.modified_at : found->second;
      return sink(dated);
    });
  }

  std::map<std::string, absl::Time> added_at;
};

class RepositoryMemoryTest : public MaintenanceFixture {
 protected:
  RepositoryMemoryTest() { good_ = BackUp(image_); }

  absl::StatusOr<std::unique_ptr<Repository>> OpenWithin(MemoryBudget& budget) {
    Environment environment = environment_;
    environment.memory = &budget;
    return Repository::Open(ctx_, dated_, kTestPassword, environment);
  }

  absl::Status LoadIndexWithin(MemoryBudget& budget) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Repository> repository, OpenWithin(budget));
    return repository->LoadIndex(ctx_);
  }

  // Runs `operation` with ever larger budgets, each that which the refusal before asked for, until
  // it succeeds; returns how often it was refused.
  template <typename Operation>
  int RefusalsUntilEnough(Operation operation) {
    int64_t bytes = MemoryBudget::kProgramBytes;
    for (int refusals = 0; refusals < 30; ++refusals) {
      MemoryBudget budget(bytes);
      const absl::Status status = operation(budget);
      EXPECT_EQ(budget.held_bytes(), 0);
      EXPECT_LE(budget.peak_bytes(), bytes - MemoryBudget::kProgramBytes);
      if (status.ok()) {
        return refusals;
      }
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
      EXPECT_GT(BytesAskedBy(status), bytes) << status;
      bytes = BytesAskedBy(status);
    }
    ADD_FAILURE() << "refused again and again";
    return 0;
  }

  void PutKey(const ScryptParameters& scrypt, absl::string_view password, absl::Duration age) {
    const std::unique_ptr<Repository> repository = Open();
    KeyFile file = *WrapMasterKey(repository->master_key(), password, {"stranger", "host"},
                                  clock_.Now(), support::kCheapScrypt, random_);
    file.scrypt = scrypt;
    const std::string text = EncodeKeyFile(file);
    store_.SetObject("keys/" + Id::Of(text).Hex(), text);
    dated_.added_at["keys/" + Id::Of(text).Hex()] = clock_.Now() - age;
  }

  const std::string image_ = support::Noise(3000, 1);
  DatedStore dated_{store_};
  Id good_;
};

// Finding 11: with a key file of 256 MiB in front of the right one, each verb was killed.
TEST_F(RepositoryMemoryTest, AKeyThatAsksForTooMuchIsSkipped) {
  for (int i = 0; i < 4; ++i) {
    PutKey({.n = 262144, .r = 8, .p = 1}, absl::StrCat("other", i), absl::Hours(100));
  }
  MemoryBudget budget(224 * kMiB);
  EXPECT_THAT(OpenWithin(budget).status(), IsOk());
  EXPECT_LT(budget.peak_bytes(), kMiB);
}

TEST_F(RepositoryMemoryTest, CheapKeysAreTriedFirst) {
  // Some seconds each, if they were tried.
  for (int i = 0; i < 40; ++i) {
    PutKey({.n = 65536, .r = 1, .p = 200}, absl::StrCat("other", i), absl::Hours(100));
  }
  EXPECT_THAT(OpenWithin(MemoryBudget::Unlimited()).status(), IsOk());
}

TEST_F(RepositoryMemoryTest, TheOnlyKeySaysHowMuchItNeeds) {
  const std::string key = KeysBelow("keys/").front();
  PutKey({.n = 4, .r = 1048, .p = 200}, kTestPassword, absl::ZeroDuration());
  store_.RemoveObject(key);
  MemoryBudget budget(MemoryBudget::kProgramBytes);
  const absl::Status status = OpenWithin(budget).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("key ")));
  EXPECT_EQ(BytesAskedBy(status), MemoryBudget::kProgramBytes + 27 * kMiB);
}

TEST_F(RepositoryMemoryTest, ThousandsOfStrangersKeysCostLittle) {
  const std::string right = KeysBelow("keys/").front();
  dated_.added_at[right] = clock_.Now() - absl::Hours(1000);
  const std::string text = store_.objects().at(right);
  for (int i = 0; i < 10'000; ++i) {
    const std::string junk =
        i % 2 == 0 ? absl::StrCat("junk ", i)
                   : absl::StrReplaceAll(
                         text, {{"\"N\":2,", "\"N\":16384,"},
                                {"\"hostname\":", absl::StrCat("\"x\":", i, ",\"hostname\":")}});
    store_.SetObject("keys/" + Id::Of(junk).Hex(), junk);
    dated_.added_at["keys/" + Id::Of(junk).Hex()] = clock_.Now() - absl::Hours(1);
  }
  const int64_t calls = store_.call_count();
  MemoryBudget budget(128 * kMiB);
  EXPECT_THAT(OpenWithin(budget).status(), IsOk());
  EXPECT_LT(store_.call_count() - calls, 600);
}

TEST_F(RepositoryMemoryTest, LoadingAnIndexSaysHowMuchItNeeds) {
  EXPECT_GE(RefusalsUntilEnough([&](MemoryBudget& budget) { return LoadIndexWithin(budget); }), 2);
}

// Finding 11: four such files took 2.5 GB.
TEST_F(RepositoryMemoryTest, AnIndexFileThatUnpacksToBlanksIsRefusedByName) {
  const std::string frame =
      Compressor(1).Compress("{\"packs\":[" + std::string(std::size_t{48} << 20, ' ') + "]}");
  Sealer sealer(Open()->master_key(), random_);
  for (int i = 0; i < 4; ++i) {
    const std::string sealed = sealer.Seal("\x02" + frame);
    store_.SetObject(FileKey(FileKind::kIndex, Id::Of(sealed)), sealed);
  }
  MemoryBudget budget(128 * kMiB);
  const support::MemoryGrowth growth;
  const absl::Status status = LoadIndexWithin(budget);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("decompresses to more")));
  if (support::AssertsUnsanitized("an index file that unpacks to blanks takes no memory")) {
    EXPECT_LT(growth.bytes(), 24 * kMiB);
  }
}

TEST_F(RepositoryMemoryTest, AnIndexFileWithALargePackTakesMemoryForIt) {
  IndexedPack pack = {.id = Id::Of("large"), .entries = {}};
  for (uint32_t i = 0; i < 60'000; ++i) {
    pack.entries.push_back({.handle = {.type = BlobType::kData, .id = Id::Of(absl::StrCat(i))},
                            .span = {.offset_bytes = i * 64, .sealed_bytes = 64}});
  }
  ASSERT_THAT(Open()->SaveFile(ctx_, FileKind::kIndex, EncodeIndex({pack})), IsOk());
  EXPECT_GE(RefusalsUntilEnough([&](MemoryBudget& budget) { return LoadIndexWithin(budget); }), 3);
}

TEST_F(RepositoryMemoryTest, ATreeSaysHowMuchItNeeds) {
  const std::string tree(std::size_t{17} << 20, ' ');
  {
    const std::unique_ptr<Repository> repository = Open();
    BlobWriter writer(ctx_, *repository, writer_options_);
    ASSERT_THAT(writer.AddBlob(BlobType::kTree, Id::Of(tree), tree), IsOk());
    ASSERT_THAT(writer.Flush(), IsOk());
  }
  absl::Status last;
  RefusalsUntilEnough([&](MemoryBudget& budget) -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<Repository> repository, OpenWithin(budget));
    RETURN_IF_ERROR(repository->LoadIndex(ctx_));
    const absl::Status read = repository->LoadTree(ctx_, Id::Of(tree)).status();
    last = read.ok() ? last : read;
    return read;
  });
  EXPECT_THAT(last, StatusIs(absl::StatusCode::kResourceExhausted,
                             HasSubstr("tree blob " + Id::Of(tree).ShortHex())));
}

// Texts that the format allows, and the budget does not.
TEST_F(RepositoryMemoryTest, LongTextsAreRefusedByName) {
  const std::unique_ptr<Repository> repository = Open();
  const std::string blanks = "{" + std::string(std::size_t{3} << 20, ' ') + "}";
  const std::string sealed =
      Sealer(repository->master_key(), random_).Seal("\x02" + Compressor(1).Compress(blanks));
  const Id snapshot = Id::Of(sealed);
  store_.SetObject(FileKey(FileKind::kSnapshot, snapshot), sealed);
  ASSERT_THAT(repository->SaveSidecarAs(ctx_, "aux/v1/long", blanks), IsOk());
  MemoryBudget small(MemoryBudget::kProgramBytes + 8 * kMiB);
  const absl::StatusOr<std::unique_ptr<Repository>> opened = OpenWithin(small);
  ASSERT_THAT(opened, IsOk());
  const absl::Status of_snapshot =
      (*opened)->LoadFile(ctx_, FileKind::kSnapshot, snapshot).status();
  EXPECT_THAT(of_snapshot, StatusIs(absl::StatusCode::kResourceExhausted,
                                    HasSubstr("snapshot " + snapshot.ShortHex())));
  MemoryBudget enough(BytesAskedBy(of_snapshot));
  const absl::StatusOr<std::unique_ptr<Repository>> larger = OpenWithin(enough);
  ASSERT_THAT(larger, IsOk());
  EXPECT_THAT((*larger)->LoadFile(ctx_, FileKind::kSnapshot, snapshot), IsOk());
  EXPECT_THAT((*opened)->LoadSidecar(ctx_, "aux/v1/long"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("aux/v1/long")));
  EXPECT_THAT((*larger)->LoadSidecar(ctx_, "aux/v1/long"), IsOk());
}

}  // namespace
}  // namespace csidelta::repository::memory_budget_test
