// A repository that lost its config, its keys, its index or its packs says which, and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "repository/blob_writer.h"
#include "tests/repository/repository_fixture.h"

namespace csidelta::repository::lost_parts_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kText[] = "a chunk";

class LostPartsTest : public RepositoryFixture {
 protected:
  LostPartsTest() {
    const std::unique_ptr<Repository> repository = Init();
    BlobWriter writer(ctx_, *repository, {});
    EXPECT_THAT(writer.AddBlob(BlobType::kData, Id::Of(kText), kText), IsOk());
    EXPECT_THAT(writer.Flush(), IsOk());
    EXPECT_THAT(repository->SaveSidecarAs(ctx_, "aux/v1/chains", "notes"), IsOk());
  }

  void Lose(const std::string& prefix) {
    for (const std::string& key : KeysBelow(prefix)) {
      store_.RemoveObject(key);
    }
  }

  absl::Status OpenStatus() {
    return Repository::Open(ctx_, store_, kTestPassword, environment_).status();
  }

  absl::StatusOr<std::string> Load() {
    const std::unique_ptr<Repository> repository = Open();
    EXPECT_THAT(repository->LoadReadableIndex(ctx_), IsOk());
    return repository->LoadBlob(ctx_, {BlobType::kData, Id::Of(kText)});
  }

  absl::StatusOr<std::unique_ptr<Repository>> RepairConfig(const std::string& password) {
    return Repository::RepairConfig(ctx_, store_, password, environment_);
  }
};

TEST_F(LostPartsTest, ALostConfigIsNamedWithWhatIsThere) {
  Lose("config");
  const absl::Status status = OpenStatus();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("has lost its config"), HasSubstr("1 index file are there"),
                             HasSubstr("repair config"))));
  EXPECT_FALSE(IsNoRepository(status));
  Lose("index/");
  EXPECT_TRUE(IsNoRepository(OpenStatus())) << "an init() that was cut off goes on";
}

TEST_F(LostPartsTest, LostKeysAreNoWrongPassword) {
  Lose("keys/");
  const absl::Status status = OpenStatus();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                               AllOf(HasSubstr("has no key file"), HasSubstr("put back"))));
  EXPECT_FALSE(IsWrongPassword(status));
}

TEST_F(LostPartsTest, ALostIndexIsNamed) {
  Lose("index/");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kNotFound,
                               AllOf(HasSubstr("is in no index"), HasSubstr("repair index"),
                                     HasSubstr("index/ has no file"))));
}

TEST_F(LostPartsTest, ALostPackIsNamed) {
  const std::string pack = KeysBelow("data/").front();
  Lose("data/");
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(pack)));
}

// Junk that opens under no key is not what proves one.
TEST_F(LostPartsTest, AConfigIsMadeAgainFromWhatAKeyOpens) {
  const std::string old = store_.objects().at("config");
  const std::string junk(100, 'j');
  store_.SetObject(FileKey(FileKind::kSnapshot, Id::Of(junk)), junk);
  for (const bool is_lost : {true, false}) {
    if (is_lost) {
      Lose("config");
    } else {
      store_.SetObject("config", old.substr(1));
      EXPECT_THAT(OpenStatus(),
                  StatusIs(absl::StatusCode::kDataLoss, HasSubstr("csi-delta repair config")));
    }
    EXPECT_TRUE(IsWrongPassword(RepairConfig("another").status()));
    const auto repaired = RepairConfig(kTestPassword);
    ASSERT_THAT(repaired, IsOk());
    EXPECT_EQ((*repaired)->config().version, kRepositoryVersion);
    EXPECT_THAT(Load(), IsOkAndHolds(kText));
    EXPECT_THAT(Open()->LoadSidecar(ctx_, "aux/v1/chains"), IsOkAndHolds("notes"));
  }
}

TEST_F(LostPartsTest, AConfigThatOpensOrThatNothingProvesIsNotMade) {
  EXPECT_THAT(RepairConfig(kTestPassword).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("nothing to repair")));
  const auto before = store_.objects();
  EXPECT_TRUE(IsWrongPassword(RepairConfig("another").status()));
  EXPECT_EQ(store_.objects(), before);
  Lose("config");
  Lose("index/");
  EXPECT_THAT(RepairConfig(kTestPassword).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("csi-delta init")));
  EXPECT_FALSE(store_.objects().contains("config"));
}

}  // namespace
}  // namespace csidelta::repository::lost_parts_test
