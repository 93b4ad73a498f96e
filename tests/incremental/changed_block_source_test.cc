// Every source of extents, and what checks them.
#include "incremental/sources/changed_block_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fiemap.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "incremental/sources/checked_listing.h"
#include "incremental/sources/extent_list_source.h"
#include "incremental/sources/image_extent_source.h"
#include "incremental/sources/listing_failure.h"
#include "tests/support/scratch_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::incremental::changed_block_source_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::ScratchFile;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

ListedExtent Data(int64_t offset, int64_t length) {
  return {.extent = {offset, length}, .kind = ExtentKind::kData};
}
ListedExtent Zero(int64_t offset, int64_t length) {
  return {.extent = {offset, length}, .kind = ExtentKind::kZero};
}

absl::StatusOr<std::vector<ListedExtent>> ListAll(ChangedBlockSource& source, int64_t size_bytes,
                                                  const std::string& base = "") {
  std::vector<ListedExtent> all;
  const absl::Status status =
      ListChecked({}, source, {.base = base, .target = "", .size_bytes = size_bytes},
                  [&](const ListedExtent& listed) {
                    all.push_back(listed);
                    return absl::OkStatus();
                  });
  if (!status.ok()) {
    return status;
  }
  return all;
}

// --- ListChecked() ---

struct ContractCase {
  const char* name;
  std::vector<ListedExtent> extents;
  const char* fault;  // "": none
};
class CheckedSourceTest : public testing::TestWithParam<ContractCase> {};

TEST_P(CheckedSourceTest, HoldsTheSourceToItsContract) {
  ExtentListSource source({.base = "", .extents = GetParam().extents});
  const absl::StatusOr<std::vector<ListedExtent>> all = ListAll(source, 1000);
  if (GetParam().fault[0] == '\0') {
    EXPECT_THAT(all, IsOkAndHolds(GetParam().extents));
  } else {
    EXPECT_THAT(all, StatusIs(absl::StatusCode::kFailedPrecondition,
                              testing::AllOf(HasSubstr(GetParam().fault), HasSubstr("extent-list"),
                                             HasSubstr("["))));
  }
}

const ContractCase kContractCases[] = {
    {"Nothing", {}, ""},
    {"Everything", {Data(0, 1000)}, ""},
    {"Touching", {Data(0, 10), Zero(10, 10)}, ""},
    {"LastByte", {Data(999, 1)}, ""},
    {"Empty", {Data(5, 0)}, "is empty"},
    {"Negative", {Data(-5, 10)}, "is empty, negative"},
    {"Overflows", {Data(kMax, 2)}, "overflows"},
    {"PastTheEnd", {Data(990, 11)}, "ends past the end of the volume"},
    {"FarPastTheEnd", {Data(kMax - 1, 1)}, "ends past the end of the volume"},
    {"Overlap", {Data(0, 10), Data(9, 10)}, "begins before the end"},
    {"Duplicate", {Data(0, 10), Data(0, 10)}, "begins before the end"},
    {"Backwards", {Data(100, 10), Data(0, 10)}, "begins before the end"},
};
INSTANTIATE_TEST_SUITE_P(Table, CheckedSourceTest, testing::ValuesIn(kContractCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(CheckedSourceTest, AnErrorOfTheSinkIsReturnedUnchanged) {
  FullScanSource source;
  EXPECT_THAT(ListChecked({}, source, {.base = "", .target = "", .size_bytes = 10},
                          [](const ListedExtent&) { return absl::DataLossError("mine"); }),
              StatusIs(absl::StatusCode::kDataLoss, "mine"));
}

TEST(FullScanSourceTest, ListsTheWholeVolumeOnce) {
  FullScanSource source;
  EXPECT_THAT(ListAll(source, 12345), IsOkAndHolds(ElementsAre(Data(0, 12345))));
  EXPECT_THAT(ListAll(source, 0), IsOkAndHolds(IsEmpty()));
}

// --- Lines of an extent list ---

struct LineCase {
  const char* name;
  std::string line;
  std::optional<ListedExtent> want = {};
  bool end = false;
  std::optional<std::string> base = {};
};
class ExtentListLineTest : public testing::TestWithParam<LineCase> {};

TEST_P(ExtentListLineTest, IsRead) {
  const absl::StatusOr<ExtentListLine> line = ParseExtentListLine(GetParam().line);
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->extent, GetParam().want);
  EXPECT_EQ(line->end, GetParam().end);
  EXPECT_EQ(line->base, GetParam().base);
}

const LineCase kLineCases[] = {
    {"Extent", R"({"offset":4096,"length":512})", Data(4096, 512)},
    {"Spaces", R"( { "length" : 1 , "offset" : 0 } )", Data(0, 1)},
    {"Zeros", R"({"offset":0,"length":8,"zero":true})", Zero(0, 8)},
    {"Context", R"({"offset":0,"length":8,"context":"d2hlcmU="})", Data(0, 8)},
    {"NotZeros", R"({"offset":0,"length":8,"zero":false})", Data(0, 8)},
    {"LastByte", R"({"offset":9223372036854775806,"length":1})", Data(kMax - 1, 1)},
    {"End", R"({"end":true})", std::nullopt, true},
    {"Base", R"({"base":"8ab6fc6f"})", std::nullopt, false, "8ab6fc6f"},
    {"Allocated", R"({"allocated":true})", std::nullopt, false, ""},
    {"Empty", "", std::nullopt},
    {"Blank", " \t\r", std::nullopt},
};
INSTANTIATE_TEST_SUITE_P(Table, ExtentListLineTest, testing::ValuesIn(kLineCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct BadLineCase {
  const char* name;
  std::string line;
};
class BadExtentListLineTest : public testing::TestWithParam<BadLineCase> {};

TEST_P(BadExtentListLineTest, IsRefused) {
  EXPECT_THAT(ParseExtentListLine(GetParam().line), StatusIs(absl::StatusCode::kInvalidArgument));
}

const BadLineCase kBadLineCases[] = {
    {"NotJson", "offset=0"},
    {"Array", "[0,4096]"},
    {"Number", "4096"},
    {"CutShort", R"({"offset":0,"leng)"},
    {"NoLength", R"({"offset":0})"},
    {"NoOffset", R"({"length":1})"},
    {"EmptyObject", "{}"},
    {"NothingLong", R"({"offset":0,"length":0})"},
    {"NegativeOffset", R"({"offset":-1,"length":1})"},
    {"NegativeLength", R"({"offset":0,"length":-1})"},
    {"Fraction", R"({"offset":0.5,"length":1})"},
    {"Exponent", R"({"offset":1e3,"length":1})"},
    {"Text", R"({"offset":"0","length":"1"})"},
    {"TooLarge", R"({"offset":9223372036854775808,"length":1})"},
    {"Overflow", R"({"offset":9223372036854775807,"length":1})"},
    {"ZeroIsNumber", R"({"offset":0,"length":1,"zero":1})"},
    {"UnknownMember", R"({"offset":0,"length":1,"kind":"data"})"},
    {"EndFalse", R"({"end":false})"},
    {"EndNumber", R"({"end":1})"},
    {"EndWithExtent", R"({"end":true,"offset":0,"length":1})"},
    {"BaseEmpty", R"({"base":""})"},
    {"BaseNumber", R"({"base":12345678})"},
    {"BaseWithExtent", R"({"base":"8ab6fc6f","offset":0,"length":1})"},
    {"BaseAndAllocated", R"({"base":"8ab6fc6f","allocated":true})"},
    {"AllocatedFalse", R"({"allocated":false})"},
    {"TwoValues", R"({"offset":0,"length":1} {"offset":1,"length":1})"},
    {"Deep", std::string(1000, '[')},
};
INSTANTIATE_TEST_SUITE_P(Table, BadExtentListLineTest, testing::ValuesIn(kBadLineCases),
                         [](const auto& test) { return std::string(test.param.name); });

std::string Line(int64_t offset, int64_t length) {
  return absl::StrCat("{\"offset\":", offset, ",\"length\":", length, "}\n");
}

constexpr char kAllocatedLine[] = "{\"allocated\":true}\n";
constexpr char kEndLine[] = "{\"end\":true}\n";

absl::StatusOr<std::vector<ListedExtent>> ReadList(absl::string_view text,
                                                   std::size_t piece_bytes = 64) {
  ExtentListReader reader;
  for (std::size_t at = 0; at < text.size(); at += piece_bytes) {
    if (absl::Status status = reader.Feed(text.substr(at, piece_bytes)); !status.ok()) {
      return status;
    }
  }
  absl::StatusOr<ExtentList> list = reader.Finish();
  if (!list.ok()) {
    return list.status();
  }
  return std::move(list->extents);
}

std::string Allocated(const std::string& lines) {
  return absl::StrCat(kAllocatedLine, lines, kEndLine);
}

TEST(ExtentListReaderTest, PiecesOfAnySizeAreTheSame) {
  const std::string text = Allocated(Line(8192, 1) + Line(0, 10) + "\n" + Line(5, 10));
  for (std::size_t piece = 1; piece < text.size() + 1; ++piece) {
    EXPECT_THAT(ReadList(text, piece), IsOkAndHolds(ElementsAre(Data(0, 15), Data(8192, 1))));
  }
}

TEST(ExtentListReaderTest, DataCountsWhereZerosOverlapIt) {
  const std::string text = R"({"offset":0,"length":100,"zero":true}
{"offset":40,"length":10}
{"offset":90,"length":20}
)";
  EXPECT_THAT(ReadList(Allocated(text), 7),
              IsOkAndHolds(ElementsAre(Zero(0, 40), Data(40, 10), Zero(50, 40), Data(90, 20))));
}

// What is left of a list when its writer dies, at any byte, is never a list.
TEST(ExtentListReaderTest, AListThatIsCutShortIsRefused) {
  const std::string text = Allocated(Line(8192, 1) + Line(0, 10));
  const std::size_t last_brace = text.size() - 1;
  for (std::size_t length = 0; length < last_brace; ++length) {
    EXPECT_THAT(ReadList(text.substr(0, length)), StatusIs(absl::StatusCode::kInvalidArgument))
        << length;
  }
  EXPECT_THAT(ReadList(text.substr(0, last_brace)), IsOk()) << "only the last newline is missing";
  EXPECT_THAT(ReadList(""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(R"({"end":true})")));
}

TEST(ExtentListReaderTest, AnEmptyListSaysWhatItIs) {
  EXPECT_THAT(ReadList(Allocated("")), IsOkAndHolds(IsEmpty()));
  ExtentListReader reader;
  EXPECT_THAT(reader.Feed("{\"base\":\"8ab6fc6f\"}\n{\"end\":true}\n"), IsOk());
  const absl::StatusOr<ExtentList> list = reader.Finish();
  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(list->base, "8ab6fc6f");
  EXPECT_THAT(list->extents, IsEmpty());
}

TEST(ExtentListReaderTest, AListThatDoesNotSayFirstWhatItIsIsRefused) {
  for (const std::string& text : {std::string(kEndLine), Line(0, 1) + kEndLine,
                                  "\n" + Line(0, 1) + kAllocatedLine + kEndLine}) {
    EXPECT_THAT(ReadList(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(R"({"base":ID})")));
  }
  EXPECT_THAT(ReadList(Allocated("{\"base\":\"8ab6fc6f\"}\n")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 2")));
}

TEST(ExtentListReaderTest, NothingStandsPastTheEnd) {
  EXPECT_THAT(ReadList(Allocated("") + Line(0, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 3")));
  EXPECT_THAT(ReadList(Allocated("") + "\n  \n"), IsOk());
}

TEST(ExtentListReaderTest, NamesTheLineThatIsWrong) {
  EXPECT_THAT(ReadList(Allocated(Line(0, 1) + "\n" + "nonsense\n")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 4")));
}

TEST(ExtentListReaderTest, ALineWithoutEndTakesNoMemory) {
  ExtentListReader reader;
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {
    status = reader.Feed(std::string(1000, ' '));
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("longer than")));
}

TEST(ExtentListReaderTest, ManyDuplicatesTakeLittleMemoryAndTooManyExtentsAreRefused) {
  ExtentListReader duplicates;
  absl::Status status = duplicates.Feed(kAllocatedLine);
  for (int i = 0; i < 20'000 && status.ok(); ++i) {
    status = duplicates.Feed(Line((i % 2) * 4096, 10));
  }
  EXPECT_THAT(status, IsOk());
  EXPECT_THAT(duplicates.Feed(kEndLine), IsOk());
  const absl::StatusOr<ExtentList> list = duplicates.Finish();
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(list->extents, ElementsAre(Data(0, 10), Data(4096, 10)));
  ExtentListReader many(1000);
  status = many.Feed(kAllocatedLine);
  int64_t fed = 0;
  for (; fed <= 1000 && status.ok(); ++fed) {
    status = many.Feed(Line(fed * 2, 1));
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(fed, 1001);
}

TEST(ExtentListSourceTest, AFileNeedsItsEndAsAPipeDoes) {
  ScratchFile file;
  EXPECT_THAT(ExtentListSource::Open({}, file.path()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(file.path())))
      << "what a producer leaves that died at once";
  file.Write(Allocated(Line(512, 512)));
  absl::StatusOr<ExtentListSource> source = ExtentListSource::Open({}, file.path());
  ASSERT_THAT(source, IsOk());
  EXPECT_THAT(ListAll(*source, 4096), IsOkAndHolds(ElementsAre(Data(512, 512))));
  EXPECT_THAT(ExtentListSource::Open({}, "no-such-file"), StatusIs(absl::StatusCode::kNotFound));

  ASSERT_EQ(::unlink(file.path().c_str()), 0);
  ASSERT_EQ(::mkfifo(file.path().c_str(), 0600), 0);
  std::jthread writer([&] { std::ofstream(file.path()) << kAllocatedLine << Line(512, 512); });
  EXPECT_THAT(ExtentListSource::Open({}, file.path()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(file.path())));
}

TEST(ExtentListSourceTest, AnswersForTheBaseThatItNamesAndForNoOther) {
  const std::string id = "8ab6fc6f" + std::string(56, '0');
  const auto lists = [&](const std::string& listed, const std::string& asked) {
    ExtentListSource source({.base = listed, .extents = {}});
    const absl::Status status = source.ListExtents(
        {}, {.base = asked, .target = "", .size_bytes = 1, .base_names = {"snap-0a1b"}},
        [](const ListedExtent&) { return absl::OkStatus(); });
    EXPECT_TRUE(status.ok() || FailureOf(status) == ListingFailure::kOtherBase) << status;
    return status.ok();
  };
  EXPECT_TRUE(lists(id, id));
  EXPECT_TRUE(lists("8ab6fc6f", id));
  EXPECT_TRUE(lists("snap-0a1b", id)) << "the driver's name of the same volume snapshot";
  EXPECT_TRUE(lists("", ""));
  EXPECT_FALSE(lists("8ab6fc6", id)) << "too short to be an id";
  EXPECT_FALSE(lists("8ab6fc60" + std::string(56, '1'), id));
  EXPECT_FALSE(lists("snap-0a1c", id));
  EXPECT_FALSE(lists(id, "")) << "what changed is not what is allocated";
  EXPECT_FALSE(lists("", id));
}

// --- Image files ---

struct FlagCase {
  const char* name;
  uint32_t flags;
  ExtentKind want;
};
class FiemapKindTest : public testing::TestWithParam<FlagCase> {};

TEST_P(FiemapKindTest, OnlyPlainUnwrittenIsZero) {
  EXPECT_EQ(FiemapKind(GetParam().flags), GetParam().want);
}

const FlagCase kFlagCases[] = {
    {"Plain", 0, ExtentKind::kData},
    {"Last", FIEMAP_EXTENT_LAST, ExtentKind::kData},
    {"Unwritten", FIEMAP_EXTENT_UNWRITTEN, ExtentKind::kZero},
    {"UnwrittenLast", FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_LAST, ExtentKind::kZero},
    {"UnwrittenMerged", FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_MERGED, ExtentKind::kZero},
    {"Delayed", FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_UNKNOWN, ExtentKind::kData},
    {"UnwrittenDelayed", FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_DELALLOC, ExtentKind::kData},
    {"UnwrittenUnknown", FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_UNKNOWN, ExtentKind::kData},
    {"UnwrittenEncoded", FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_ENCODED, ExtentKind::kData},
    {"UnwrittenInline", FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_DATA_INLINE, ExtentKind::kData},
    {"UnwrittenTail", FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_DATA_TAIL, ExtentKind::kData},
    {"Encrypted", FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_DATA_ENCRYPTED, ExtentKind::kData},
};
INSTANTIATE_TEST_SUITE_P(Table, FiemapKindTest, testing::ValuesIn(kFlagCases),
                         [](const auto& test) { return std::string(test.param.name); });

class ImageExtentSourceTest : public testing::TestWithParam<ImageListing> {};

// A file with data, holes and blocks that are allocated but unwritten, in random places.
TEST_P(ImageExtentSourceTest, UnlistedExtentsReadAsZeros) {
  constexpr int64_t kBlock = 64 << 10;
  constexpr int64_t kBlocks = 64;
  const support::SweepSample sample;
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(static_cast<unsigned>(sample.seed()) * 10 + seed);
    const ScratchFile file(".");
    const int fd = ::open(file.path().c_str(), O_RDWR);
    ASSERT_EQ(::ftruncate(fd, kBlock * kBlocks + 100), 0);
    std::vector<bool> written(kBlocks, false);
    const std::string bytes(kBlock, 'x');
    for (int64_t block = 0; block < kBlocks; ++block) {
      const unsigned what = static_cast<unsigned>(random() % 3);
      if (what == 0) {
        ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), block * kBlock), kBlock);
        written[static_cast<std::size_t>(block)] = true;
      } else if (what == 1) {
        ::fallocate(fd, 0, block * kBlock, kBlock);
      }
    }
    ::close(fd);
    absl::StatusOr<ImageExtentSource> image = ImageExtentSource::Open(file.path(), GetParam());
    ASSERT_THAT(image, IsOk());
    const auto all = ListAll(*image, kBlock * kBlocks + 100, "parent");
    ASSERT_THAT(all, IsOk());
    int64_t at = 0;
    for (const ListedExtent& listed : *all) {
      ASSERT_EQ(listed.extent.offset_bytes, at) << "with a base, nothing is left out";
      at = listed.extent.end_bytes();
      if (listed.kind != ExtentKind::kZero) {
        continue;
      }
      for (int64_t block = 0; block < kBlocks; ++block) {
        const bool overlaps = block * kBlock < listed.extent.end_bytes() &&
                              listed.extent.offset_bytes < (block + 1) * kBlock;
        EXPECT_FALSE(overlaps && written[static_cast<std::size_t>(block)]) << "seed " << seed;
      }
    }
    EXPECT_EQ(at, kBlock * kBlocks + 100);
    const auto allocated = ListAll(*image, kBlock * kBlocks + 100);
    ASSERT_THAT(allocated, IsOk());
    for (const ListedExtent& listed : *allocated) {
      EXPECT_EQ(listed.kind, ExtentKind::kData);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Listing, ImageExtentSourceTest,
                         testing::Values(ImageListing::kSeek, ImageListing::kFiemap),
                         [](const auto& test) {
                           return test.param == ImageListing::kSeek ? "Seek" : "Fiemap";
                         });

TEST(FullScanSourceTest, HolesOfAnImageAreZerosWithoutARead) {
  constexpr int64_t kBlock = 64 << 10;
  const ScratchFile file(".");
  const int fd = ::open(file.path().c_str(), O_RDWR);
  ASSERT_EQ(::ftruncate(fd, int64_t{1} << 40), 0);
  const std::string bytes(kBlock, 'x');
  ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), int64_t{1} << 39), kBlock);
  ::close(fd);
  FullScanSource image(file.path());
  const auto beside_a_parent = ListAll(image, int64_t{1} << 40, "parent");
  ASSERT_THAT(beside_a_parent, IsOk());
  EXPECT_EQ(beside_a_parent->size(), 3U);
  EXPECT_EQ(beside_a_parent->at(0).kind, ExtentKind::kZero);
  EXPECT_EQ(beside_a_parent->at(1).extent, (Extent{int64_t{1} << 39, kBlock}));
  EXPECT_EQ(beside_a_parent->at(2).kind, ExtentKind::kZero);
  const auto alone = ListAll(image, int64_t{1} << 40);
  ASSERT_THAT(alone, IsOk());
  EXPECT_EQ(alone->size(), 1U);  // What a first backup is not told of is zero.
}

TEST(FullScanSourceTest, ASourceThatIsNoImageIsDataFromEndToEnd) {
  for (const char* path : {"", "/dev/null", "no-such-file"}) {
    FullScanSource source(path);
    const auto all = ListAll(source, 1000);
    ASSERT_THAT(all, IsOk()) << path;
    ASSERT_EQ(all->size(), 1U) << path;
    EXPECT_EQ(all->front().kind, ExtentKind::kData);
    EXPECT_EQ(all->front().extent, (Extent{0, 1000}));
  }
}

TEST(ImageExtentSourceTest, ADeviceIsNeverListed) {
  EXPECT_THAT(ImageExtentSource::Open("/dev/null"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(ImageExtentSource::Open("."), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(ImageExtentSource::Open("no-such-file"), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace csidelta::incremental::changed_block_source_test
