#include "repository/pack_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/memory_budget.h"
#include "repository/pack_reader.h"
#include "repository/pack_writer.h"
#include "storage/forwarding_object_store.h"
#include "tests/repository/repository_fixture.h"
#include "tests/support/await.h"

namespace csidelta::repository::pack_scanner_test {
namespace {

using support::IsOk;
using support::Noise;
using support::StoreFault;
using support::StoreOperation;
using support::WrongBytes;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kMiB = int64_t{1} << 20;
// Two of them do not fit into a piece.
constexpr int64_t kBlobBytes = 700'000;

class PackScannerTest : public RepositoryFixture {
 protected:
  PackScannerTest() { Init(); }

  // A stored pack of blobs of noise.
  PackToScan StorePack(int64_t blob_bytes, int count, uint64_t seed) {
    const std::unique_ptr<Repository> repository = Open();
    const std::unique_ptr<BlobCodec> codec = repository->MakeCodec(kNoCompression);
    PackBuilder builder(BlobType::kData, *codec);
    for (int i = 0; i < count; ++i) {
      const std::string text =
          Noise(static_cast<std::size_t>(blob_bytes), 1000 * seed + static_cast<uint64_t>(i));
      const auto blob = codec->Compress({.type = BlobType::kData, .id = Id::Of(text)}, text);
      EXPECT_THAT(blob, IsOk());
      EXPECT_THAT(builder.Add(*blob, *codec), IsOk());
    }
    absl::StatusOr<Pack> pack = builder.Finish();
    EXPECT_THAT(pack, IsOk());
    const FileInfo file = {.id = pack->id, .size_bytes = std::ssize(pack->bytes.view())};
    store_.SetObject(PackKey(pack->id), std::string(pack->bytes.view()));
    return {.file = file, .blobs = pack->entries};
  }

  absl::Status Scan(storage::ObjectStore& store, const std::vector<PackToScan>& packs,
                    PackFindingsSink done, const ScannedBlobSink& sink) {
    Environment environment = environment_;
    environment.memory = &budget_;
    ASSIGN_OR_RETURN(const std::unique_ptr<Repository> repository,
                     Repository::Open(ctx_, store, kTestPassword, environment));
    return ScanPacks(ctx_, *repository, packs, kMiB, done, sink);
  }

  // Of one pack; each blob must be told once.
  PackFindings Find(const PackToScan& pack) {
    PackFindings findings;
    std::map<std::size_t, int> told;
    EXPECT_THAT(
        Scan(
            store_, {pack},
            [&](std::size_t, PackFindings found) {
              findings = std::move(found);
              return absl::OkStatus();
            },
            [&](std::size_t number, const absl::StatusOr<absl::string_view>& plaintext) {
              ++told[number];
              EXPECT_TRUE(!plaintext.ok() || Id::Of(*plaintext) == pack.blobs[number].handle.id);
              return absl::OkStatus();
            }),
        IsOk());
    EXPECT_EQ(told.size(), pack.blobs.size());
    for (const auto& [number, count] : told) {
      EXPECT_EQ(count, 1) << number;
    }
    return findings;
  }

  MemoryBudget budget_{MemoryBudget::kProgramBytes + 16 * kMiB};
};

TEST_F(PackScannerTest, AGoodPackIsReadOnceFromItsFirstByteToItsLast) {
  const PackToScan pack = StorePack(kBlobBytes, 3, 1);
  store_.Restart();
  const PackFindings found = Find(pack);
  EXPECT_EQ(found.detail, "");
  EXPECT_TRUE(found.is_listed_so);
  EXPECT_THAT(found.damaged, IsEmpty());
  int requests = 0;
  for (const support::StoreCall& call : store_.calls()) {
    requests += call.key == PackKey(pack.file.id) ? 1 : 0;
  }
  EXPECT_EQ(requests, 3);
}

// Of a pack of three pieces, with a blob in each.
TEST_F(PackScannerTest, APieceThatDoesNotComeIsDamageOfItsBlobsAlone) {
  const PackToScan pack = StorePack(kBlobBytes, 3, 1);
  const std::string key = PackKey(pack.file.id);
  for (std::size_t i = 0; i < 3; ++i) {
    const int64_t call = static_cast<int64_t>(i) + 1;
    for (const StoreFault& fault : {StoreFault{.wrong_bytes = WrongBytes::kShort},
                                    StoreFault{.wrong_bytes = WrongBytes::kFlipped},
                                    StoreFault{.wrong_bytes = WrongBytes::kOther},
                                    StoreFault{.status = absl::NotFoundError("gone")},
                                    StoreFault{.status = absl::OutOfRangeError("cut")}}) {
      StoreFault armed = fault;
      armed.operation = StoreOperation::kGetRange;
      armed.key_prefix = key;
      armed.first_call = armed.last_call = call;
      store_.AddFault(armed);
      const PackFindings found = Find(pack);
      EXPECT_NE(found.detail, "") << i;
      // Requests overlap: which piece had the fault is not known, but it was one.
      EXPECT_EQ(found.damaged.size(), 1u) << i;
      store_.ClearFaults();
    }
  }
  EXPECT_EQ(Find(pack).detail, "");
}

// In pieces of its own, or in one with blobs.
TEST_F(PackScannerTest, WhatLiesBetweenTheBlobsIsProvenByTheName) {
  for (const int64_t blob_bytes : {kBlobBytes, int64_t{1000}}) {
    PackToScan pack = StorePack(blob_bytes, 3, 1);
    pack.blobs.erase(pack.blobs.begin() + 1);
    const PackFindings good = Find(pack);
    EXPECT_EQ(good.detail, "") << blob_bytes;
    EXPECT_FALSE(good.is_listed_so);
    EXPECT_EQ(good.header.size(), 3u);
    const std::string key = PackKey(pack.file.id);
    std::string bytes = store_.objects().at(key);
    char& between = bytes[static_cast<std::size_t>(blob_bytes * 3 / 2)];
    between = static_cast<char>(between ^ 1);
    store_.SetObject(key, bytes);
    const PackFindings found = Find(pack);
    EXPECT_THAT(found.detail, testing::HasSubstr("does not hash to its name"));
    EXPECT_THAT(found.damaged, IsEmpty());
  }
}

TEST_F(PackScannerTest, BlobsThatOverlapAreLongerThanOthersOrReachBeyondThePackAreReadAlone) {
  PackToScan pack = StorePack(kBlobBytes, 3, 1);
  EXPECT_EQ(Find(StorePack(kMiB + 200'000, 2, 2)).detail, "");  // of which 1 MiB is a piece's
  pack.blobs[1].span.offset_bytes -= 1;
  EXPECT_THAT(Find(pack).damaged, ElementsAre(1));
  pack.blobs[1].span.offset_bytes += 1;
  pack.blobs[2].span.sealed_bytes += 1'000'000;
  EXPECT_THAT(Find(pack).damaged, ElementsAre(2));
}

TEST_F(PackScannerTest, APackThatIsGoneEmptyOrCutIsDamage) {
  PackToScan pack = StorePack(kBlobBytes, 3, 1);
  const std::string bytes = store_.objects().at(PackKey(pack.file.id));
  store_.RemoveObject(PackKey(pack.file.id));
  const PackFindings gone = Find(pack);
  EXPECT_NE(gone.detail, "");
  EXPECT_THAT(gone.damaged, testing::UnorderedElementsAre(0, 1, 2));
  pack.file.size_bytes = 2 * kBlobBytes;
  store_.SetObject(PackKey(pack.file.id), bytes.substr(0, 2 * kBlobBytes));
  EXPECT_THAT(Find(pack).damaged, testing::UnorderedElementsAre(1, 2));
  pack.file.size_bytes = 0;
  store_.SetObject(PackKey(pack.file.id), "");
  const PackFindings empty = Find(pack);
  EXPECT_NE(empty.detail, "");
  EXPECT_THAT(empty.damaged, testing::UnorderedElementsAre(0, 1, 2));
}

TEST_F(PackScannerTest, AnErrorOfTheStoreOrOfASinkEndsTheScan) {
  const PackToScan pack = StorePack(kBlobBytes, 3, 1);
  const auto ignore = [](std::size_t, const PackFindings&) { return absl::OkStatus(); };
  const auto refuse = [](std::size_t number, const absl::StatusOr<absl::string_view>&) {
    return number == 1 ? absl::AbortedError("full") : absl::OkStatus();
  };
  EXPECT_THAT(Scan(store_, {pack}, ignore, refuse), support::StatusIs(absl::StatusCode::kAborted));
  store_.AddFault({.operation = StoreOperation::kGetRange,
                   .first_call = 2,
                   .last_call = 2,
                   .status = absl::UnavailableError("away")});
  EXPECT_THAT(Scan(store_, {pack}, ignore, nullptr),
              support::StatusIs(absl::StatusCode::kUnavailable));
}

// Each is longer than all pieces that memory holds.
TEST_F(PackScannerTest, LongPacksAreDecodedAlongside) {
  const std::vector<PackToScan> packs = {StorePack(kBlobBytes, 16, 1),
                                         StorePack(kBlobBytes, 16, 2)};
  std::atomic<int> begun = 0;
  const auto meet = [&](std::size_t number, const absl::StatusOr<absl::string_view>& plaintext) {
    begun += number == 0 ? 1 : 0;
    support::Await("the other pack", [&] { return begun == 2; });
    return plaintext.status();
  };
  const auto good = [](std::size_t, const PackFindings& found) {
    EXPECT_EQ(found.detail, "");
    return absl::OkStatus();
  };
  EXPECT_THAT(Scan(store_, packs, good, meet), IsOk());
}

// Counts the bytes that were requested; the test takes off those of packs that are done.
class CountingStore : public storage::ForwardingObjectStore {
 public:
  CountingStore(storage::ObjectStore& inner, const MemoryBudget& budget)
      : ForwardingObjectStore(inner), budget_(budget) {}
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override {
    EXPECT_LE(bytes += range.length_bytes, budget_.held_bytes());
    ++requests;
    return inner().GetRange(ctx, key, range);
  }

  std::atomic<int64_t> bytes = 0;
  std::atomic<std::size_t> requests = 0;

 private:
  const MemoryBudget& budget_;
};

// The longest piece has a header behind it. These blobs take next to nothing.
TEST_F(PackScannerTest, PiecesInMemoryWereTakenFromTheBudget) {
  constexpr int64_t kPackBytes = kMiB + 60'000;
  constexpr uint32_t kSmallBytes = 749;
  std::vector<PackToScan> packs;
  const std::string noise = Noise(kPackBytes, 1);
  for (int i = 0; i < 40; ++i) {
    PackToScan pack = {.file = {.id = Id::Of(absl::StrCat(i)), .size_bytes = kPackBytes},
                       .blobs = {}};
    for (uint32_t at = 0; at + kSmallBytes <= kMiB; at += kSmallBytes) {
      pack.blobs.push_back({.handle = {.type = BlobType::kData, .id = Id::Of("x")},
                            .span = {.offset_bytes = at, .sealed_bytes = kSmallBytes}});
    }
    store_.SetObject(PackKey(pack.file.id), noise);
    packs.push_back(std::move(pack));
  }
  CountingStore counting(store_, budget_);
  const auto await_full = [&](std::size_t number, const absl::StatusOr<absl::string_view>&) {
    support::Await("requests", [&] {
      return number > 0 || counting.bytes > budget_.held_bytes() - kPackBytes ||
             counting.requests == packs.size();
    });
    return absl::OkStatus();
  };
  const auto done = [&](std::size_t, const PackFindings& found) {
    EXPECT_NE(found.detail, "");
    counting.bytes -= kPackBytes;
    return absl::OkStatus();
  };
  EXPECT_THAT(Scan(counting, packs, done, await_full), IsOk());
}

class PackHeadersTest : public PackScannerTest {};

TEST_F(PackHeadersTest, OneThatIsLongTakesASecondRequestAndImpossiblePacksNone) {
  std::vector<FileInfo> files = {StorePack(100, 10, 1).file, StorePack(100, 200, 2).file};
  for (const int64_t size_bytes : {int64_t{0}, kPackBytesMin - 1, kPackBytesMax + 1}) {
    files.push_back({.id = Id::Of(absl::StrCat(size_bytes)), .size_bytes = size_bytes});
    store_.SetObject(PackKey(files.back().id), "");
  }
  const std::unique_ptr<Repository> repository = Open();
  store_.Restart();
  std::vector<std::size_t> blobs;
  int damaged = 0;
  EXPECT_THAT(ReadPackHeaders(ctx_, *repository, files,
                              [&](const FileInfo&, absl::StatusOr<std::vector<PackEntry>> entries) {
                                damaged += absl::IsDataLoss(entries.status()) ? 1 : 0;
                                blobs.push_back(entries.ok() ? entries->size() : 0);
                                return absl::OkStatus();
                              }),
              IsOk());
  EXPECT_THAT(blobs, testing::UnorderedElementsAre(10, 200, 0, 0, 0));
  EXPECT_EQ(damaged, 3);
  EXPECT_EQ(store_.call_count(), 1 + 2);
}

}  // namespace
}  // namespace csidelta::repository::pack_scanner_test
