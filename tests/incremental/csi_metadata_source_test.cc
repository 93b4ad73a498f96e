// The client of snapshot metadata against a real gRPC server on loopback: what it asks, what it
// believes, what it tries again, and what it calls its failures.
#include "incremental/sources/csi_metadata_source.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/await.h"
#include "tests/support/fake_metadata_server.h"
#include "tests/support/memory_growth.h"
#include "tests/support/metadata_cluster.h"
#include "tests/support/sanitized.h"
#include "tests/support/status_matchers.h"

namespace csidelta::incremental::csi_metadata_source_test {
namespace {

using support::FakeMetadataServer;
using support::IsOk;
using support::MetadataCluster;
using support::ServedMessage;
using support::ServedQuery;
using support::ServedStream;
using support::ServeTuples;
using support::StatusIs;
using support::TestAuthority;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Optional;
using testing::SizeIs;

constexpr int64_t kSize = 64 << 20;

ListedExtent Data(int64_t offset, int64_t length) {
  return {.extent = {offset, length}, .kind = ExtentKind::kData};
}

const Extent kFirst{0, 4096};
const Extent kSecond{1 << 20, 8192};
const Extent kThird{8 << 20, 4096};
const std::vector<Extent> kThree = {kFirst, kSecond, kThird};
const std::vector<ListedExtent> kThreeListed = {{kFirst}, {kSecond}, {kThird}};

// The n-th stream, from 1 on, and what to do in it.
using Script = std::function<absl::Status(int n, const ServedQuery&, ServedStream&)>;

absl::Status Honest(int, const ServedQuery& query, ServedStream& stream) {
  return ServeTuples(query, stream, kSize, kThree);
}

class CsiMetadataSourceTest : public testing::Test {
 protected:
  void Serve(Script script, const std::string& version = "v1beta1") {
    server_ = std::make_unique<FakeMetadataServer>(
        authority_.IssueServer("IP:127.0.0.1"),
        [this, script = std::move(script)](const ServedQuery& query, ServedStream& stream) {
          return script(++streams_, query, stream);
        });
    cluster_.Advertise(server_->address(), authority_.ca_pem(), version);
  }

  // Each stream is one message.
  void ServeMessage(std::vector<Extent> tuples) {
    Serve([tuples = std::move(tuples)](int, const ServedQuery&, ServedStream& stream) {
      stream.Send({.capacity_bytes = kSize, .tuples = tuples});
      return absl::OkStatus();
    });
  }

  absl::Status List(const std::string& base = "handle-old") {
    listed_.clear();
    csi::AudienceTokens tokens(cluster_.api, token_settings_);
    CsiMetadataSource source(cluster_.api, tokens, Random::Real(), options_);
    return source.ListExtents(context_, {.base = base, .target = "app/new", .size_bytes = kSize},
                              [&](const ListedExtent& listed) {
                                listed_.push_back(listed);
                                return sink_(listed);
                              });
  }

  void ExpectThree() {
    EXPECT_THAT(List(), IsOk());
    EXPECT_EQ(listed_, kThreeListed);
  }

  std::vector<ServedQuery> queries() const { return server_->queries(); }

  MetadataCluster cluster_;
  TestAuthority authority_;
  csi::AudienceTokenSettings token_settings_;
  CsiMetadataOptions options_;
  CallContext context_ = cluster_.Context();
  std::atomic<int> streams_ = 0;
  std::vector<ListedExtent> listed_;
  std::function<absl::Status(const ListedExtent&)> sink_ = [](const ListedExtent&) {
    return absl::OkStatus();
  };
  std::unique_ptr<FakeMetadataServer> server_;
};

// --- What is asked.

TEST_F(CsiMetadataSourceTest, ListsWhatChangedSinceTheBase) {
  Serve(Honest);
  ExpectThree();
  ASSERT_THAT(queries(), SizeIs(2));
  const ServedQuery query = queries()[0];
  EXPECT_TRUE(query.is_delta);
  EXPECT_EQ(query.token, "token-1");
  EXPECT_EQ(query.namespace_name, "app");
  EXPECT_EQ(query.base, "handle-old");
  EXPECT_EQ(query.target, "new");
  EXPECT_EQ(query.starting_offset_bytes, 0);
  EXPECT_EQ(query.results_max, 4096);
}

TEST_F(CsiMetadataSourceTest, ListsWhatIsAllocatedWithoutABase) {
  Serve(Honest);
  EXPECT_THAT(List(""), IsOk());
  EXPECT_EQ(listed_, kThreeListed);
  EXPECT_FALSE(queries()[0].is_delta);
}

TEST_F(CsiMetadataSourceTest, ATokenIsForOneAudienceAndEndsWithThePod) {
  Serve(Honest);
  cluster_.api.SetPod("mover-1", "pod-uid");
  Json sent;
  cluster_.api.SetInterceptor([&](const support::ApiCall& call, const Json* body) {
    if (call.subresource == "token") {
      sent = *body;
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(List(), IsOk());
  EXPECT_EQ(sent["spec"]["audiences"], Json::array({"metadata-of-hostpath"}));
  EXPECT_EQ(sent["spec"]["expirationSeconds"], 600);
  EXPECT_EQ(sent["spec"]["boundObjectRef"]["name"], "mover-1");
  EXPECT_EQ(sent["spec"]["boundObjectRef"]["uid"], "pod-uid");
}

// --- What is believed.

// Of what is allocated it would say that the whole volume is zero.
TEST_F(CsiMetadataSourceTest, AListWithoutAMessageIsAskedForAgainAndThenMalformed) {
  Serve([](int, const ServedQuery&, ServedStream&) { return absl::OkStatus(); });
  for (const char* base : {"", "handle-old"}) {
    const std::size_t before = queries().size();
    EXPECT_THAT(FailureOf(List(base)), Optional(ListingFailure::kMalformedList));
    EXPECT_EQ(queries().size() - before, 2u);
  }
}

TEST_F(CsiMetadataSourceTest, AListThatHasItsMessagesTheSecondTimeIsWhole) {
  Serve([](int stream_number, const ServedQuery& query, ServedStream& stream) {
    return stream_number == 0 ? absl::OkStatus() : Honest(stream_number, query, stream);
  });
  ExpectThree();
}

TEST_F(CsiMetadataSourceTest, AMessageWithoutTuplesIsAnEmptyList) {
  ServeMessage({});
  EXPECT_THAT(List(), IsOk());
  EXPECT_THAT(listed_, IsEmpty());
}

TEST_F(CsiMetadataSourceTest, FiveThousandScatteredExtentsInMessagesOfAnySize) {
  std::vector<Extent> tuples;
  std::vector<ListedExtent> want;
  for (int64_t i = 0; i < 5000; ++i) {
    tuples.push_back({i * 12'288, 4096});
    want.push_back({tuples.back()});
  }
  for (const int results : {1, 128, 256, 1 << 30}) {
    Serve([&](int, const ServedQuery& query, ServedStream& stream) {
      return ServeTuples(query, stream, kSize, tuples, results);
    });
    options_.results_per_message_max = results;
    EXPECT_THAT(List(), IsOk()) << results;
    EXPECT_EQ(listed_, want) << results;
  }
}

TEST_F(CsiMetadataSourceTest, AMessageOfFiveMebibytesIsRead) {
  const std::vector<Extent> touching = [] {
    std::vector<Extent> tuples;
    for (int64_t i = 0; i < 400'000; ++i) {
      tuples.push_back({i * 128, 128});
    }
    return tuples;
  }();
  Serve([&](int, const ServedQuery&, ServedStream& stream) {
    stream.Send({.type = 1, .capacity_bytes = kSize, .tuples = touching});
    return absl::OkStatus();
  });
  EXPECT_THAT(List(), IsOk());
  EXPECT_THAT(listed_, ElementsAre(Data(0, 51'200'000)));
}

// A driver that ends its stream with OK after one page.
TEST_F(CsiMetadataSourceTest, AnOkThatComesTooEarlyIsNotTheEnd) {
  Serve([](int, const ServedQuery& query, ServedStream& stream) {
    for (const Extent& tuple : kThree) {
      if (tuple.end_bytes() > query.starting_offset_bytes) {
        stream.Send({.capacity_bytes = kSize, .tuples = {tuple}});
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  });
  ExpectThree();
  EXPECT_THAT(queries(), SizeIs(4));
}

TEST_F(CsiMetadataSourceTest, AServiceThatReachedTheEndOfTheVolumeIsNotAskedAgain) {
  ServeMessage({{kSize - 4096, 4096}});
  EXPECT_THAT(List(), IsOk());
  EXPECT_THAT(queries(), SizeIs(1));
}

TEST_F(CsiMetadataSourceTest, TheTailMayBeOutOfRange) {
  Serve([](int n, const ServedQuery& query, ServedStream& stream) -> absl::Status {
    return n == 1 ? Honest(n, query, stream) : absl::OutOfRangeError("beyond the volume");
  });
  ExpectThree();
}

// Two drivers answer OK when their context ends.
TEST_F(CsiMetadataSourceTest, AnOkAtTheDeadlineIsNotTheEnd) {
  Serve([this](int n, const ServedQuery& query, ServedStream& stream) -> absl::Status {
    if (n == 1) {
      stream.Send({.capacity_bytes = kSize, .tuples = {kFirst}});
    }
    if (n == 2) {
      cluster_.clock.Advance(options_.stream_time_max - absl::Milliseconds(500));
      return absl::OkStatus();
    }
    return n == 1 ? absl::OkStatus() : Honest(n, query, stream);
  });
  EXPECT_THAT(List(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("moment of its deadline")));
}

TEST_F(CsiMetadataSourceTest, AStreamThatEndsAtItsDeadlineGoesOnWhereItBrought) {
  Serve([this](int n, const ServedQuery& query, ServedStream& stream) -> absl::Status {
    if (n > 1) {
      return Honest(n, query, stream);
    }
    stream.Send({.capacity_bytes = kSize, .tuples = {kFirst}});
    cluster_.clock.Advance(options_.stream_time_max);
    return absl::OkStatus();
  });
  ExpectThree();
}

struct LieCase {
  const char* name;
  std::vector<Extent> tuples;
};
class CsiMetadataLieTest : public CsiMetadataSourceTest,
                           public testing::WithParamInterface<LieCase> {};

TEST_P(CsiMetadataLieTest, EndsTheListing) {
  ServeMessage(GetParam().tuples);
  const absl::Status status = List();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("app/new")));
  EXPECT_THAT(FailureOf(status), Optional(ListingFailure::kMalformedList));
}

const LieCase kLies[] = {
    {"Unordered", {{8192, 4096}, {0, 4096}}},   {"Overlapping", {{0, 8192}, {4096, 4096}}},
    {"BeyondCapacity", {{kSize, 4096}}},        {"ZeroLength", {{0, 0}}},
    {"NegativeOffset", {{-4096, 4096}}},        {"NegativeLength", {{4096, -4096}}},
    {"Overflowing", {{4096, INT64_MAX - 100}}},
};
INSTANTIATE_TEST_SUITE_P(Table, CsiMetadataLieTest, testing::ValuesIn(kLies),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(CsiMetadataSourceTest, AVolumeThatChangesItsSizeBetweenStreamsEndsTheListing) {
  Serve([](int n, const ServedQuery&, ServedStream& stream) -> absl::Status {
    stream.Send({.capacity_bytes = kSize * n, .tuples = {n == 1 ? kFirst : kSecond}});
    return n == 1 ? absl::UnavailableError("cut") : absl::OkStatus();
  });
  EXPECT_THAT(FailureOf(List()), Optional(ListingFailure::kMalformedList));
}

// --- What is tried again.

TEST_F(CsiMetadataSourceTest, AStreamInterruptedAfterEveryMessageIsResumed) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kAborted, absl::StatusCode::kCancelled,
        absl::StatusCode::kInternal, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kUnknown, absl::StatusCode::kResourceExhausted}) {
    Serve([code](int, const ServedQuery& query, ServedStream& stream) {
      for (const Extent& tuple : kThree) {
        if (tuple.end_bytes() > query.starting_offset_bytes) {
          stream.Send({.capacity_bytes = kSize, .tuples = {tuple}});
          return absl::Status(code, "cut");
        }
      }
      return absl::OkStatus();
    });
    EXPECT_THAT(List(), IsOk()) << absl::StatusCodeToString(code);
    EXPECT_EQ(listed_, kThreeListed);
    ASSERT_THAT(queries(), SizeIs(4));
    EXPECT_EQ(queries()[1].starting_offset_bytes, kFirst.end_bytes());
    EXPECT_EQ(queries()[2].starting_offset_bytes, kSecond.end_bytes());
  }
}

// The driver's own end is asked for, not the end of what was kept: between its blocks some drivers
// name the wrong one.
TEST_F(CsiMetadataSourceTest, GoesOnOnlyFromWhereTheDriverStopped) {
  Serve([](int n, const ServedQuery&, ServedStream& stream) -> absl::Status {
    if (n == 1) {
      stream.Send({.capacity_bytes = 2 * kSize, .tuples = {{kSize - 4096, 1 << 20}}});
      return absl::UnavailableError("cut");
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(List(), IsOk());
  EXPECT_THAT(listed_, ElementsAre(Data(kSize - 4096, 4096)));
  EXPECT_EQ(queries()[1].starting_offset_bytes, kSize - 4096 + (1 << 20));
}

TEST_F(CsiMetadataSourceTest, GracePeriodEndsWithoutProgress) {
  Serve([](int, const ServedQuery&, ServedStream&) { return absl::UnavailableError("no driver"); });
  const absl::Time began = cluster_.clock.Now();
  const absl::Status status = List();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no driver")));
  EXPECT_THAT(FailureOf(status), Optional(ListingFailure::kMetadataUnavailable));
  EXPECT_THAT(queries(), SizeIs(6));
  EXPECT_GT(cluster_.clock.Now() - began, absl::Seconds(5));
  EXPECT_LT(cluster_.clock.Now() - began, absl::Minutes(1));
}

TEST_F(CsiMetadataSourceTest, AnUnexplainedErrorIsTriedTwiceMore) {
  Serve([](int, const ServedQuery&, ServedStream&) { return absl::InternalError("oops"); });
  EXPECT_THAT(FailureOf(List()), Optional(ListingFailure::kMetadataUnavailable));
  EXPECT_THAT(queries(), SizeIs(3));
}

TEST_F(CsiMetadataSourceTest, AVolumeSnapshotThatIsGoneIsNotWaitedFor) {
  Serve([this](int, const ServedQuery&, ServedStream&) {
    cluster_.api.Remove(VolumeSnapshotKey("app", "new"));
    return absl::UnavailableError("get VolumeSnapshot: not found");
  });
  const absl::Status status = List();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("volumesnapshots")));
  EXPECT_THAT(FailureOf(status), Optional(ListingFailure::kPermanent));
  EXPECT_THAT(queries(), SizeIs(1));
}

TEST_F(CsiMetadataSourceTest, ARefusedTokenIsReplacedOnce) {
  Serve([](int, const ServedQuery& query, ServedStream& stream) {
    return query.token == "token-1" ? absl::UnauthenticatedError("expired")
                                    : ServeTuples(query, stream, kSize, kThree);
  });
  ExpectThree();
}

TEST_F(CsiMetadataSourceTest, AWrongAudienceIsPermanent) {
  Serve([](int, const ServedQuery&, ServedStream&) {
    return absl::UnauthenticatedError("wrong audience");
  });
  const absl::Status status = List();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnauthenticated,
                               AllOf(HasSubstr("metadata-of-hostpath"), Not(HasSubstr("token-")))));
  EXPECT_THAT(FailureOf(status), Optional(ListingFailure::kPermanent));
  EXPECT_THAT(queries(), SizeIs(2));
}

TEST_F(CsiMetadataSourceTest, ATokenThatEndsInMidStreamIsRenewedForTheNext) {
  Serve([this](int n, const ServedQuery& query, ServedStream& stream) -> absl::Status {
    if (n == 1) {
      stream.Send({.capacity_bytes = kSize, .tuples = {kFirst}});
      cluster_.clock.Advance(absl::Minutes(9) + absl::Seconds(30));
      return absl::UnavailableError("cut");
    }
    return Honest(n, query, stream);
  });
  EXPECT_THAT(List(), IsOk());
  EXPECT_EQ(queries()[0].token, "token-1");
  EXPECT_EQ(queries()[1].token, "token-2");
}

TEST_F(CsiMetadataSourceTest, AMessageThatIsTooLargeIsAskedForInPieces) {
  options_.message_bytes_max = 2000;
  std::vector<Extent> tuples;
  for (int64_t i = 0; i < 1000; ++i) {
    tuples.push_back({i * 8192, 4096});
  }
  Serve([&](int, const ServedQuery& query, ServedStream& stream) {
    return ServeTuples(query, stream, kSize, tuples, 1 << 30);
  });
  EXPECT_THAT(List(), IsOk());
  EXPECT_THAT(listed_, SizeIs(1000));
  EXPECT_LT(queries().back().results_max, 4096);
}

TEST_F(CsiMetadataSourceTest, AnotherCertificateIsFoundInTheClusterAgain) {
  Serve(Honest);
  TestAuthority renewed;
  const FakeMetadataServer second(renewed.IssueServer("IP:127.0.0.1"),
                                  [](const ServedQuery& query, ServedStream& stream) {
                                    return ServeTuples(query, stream, kSize, kThree);
                                  });
  // The object still has the old authority when it is first read.
  cluster_.Advertise(second.address(), authority_.ca_pem());
  int reads = 0;
  cluster_.api.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.plural == "snapshotmetadataservices" && ++reads == 2) {
      cluster_.Advertise(second.address(), renewed.ca_pem());
    }
    return absl::OkStatus();
  });
  ExpectThree();
  EXPECT_THAT(queries(), IsEmpty());
}

// --- Which server it trusts.

TEST_F(CsiMetadataSourceTest, ACertificateOfAnotherAuthorityIsNotTrusted) {
  Serve(Honest);
  cluster_.Advertise(server_->address(), TestAuthority().ca_pem());
  const absl::Status status = List();
  EXPECT_THAT(FailureOf(status), Optional(ListingFailure::kMetadataUnavailable));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("look at the service of SnapshotMetadataService")));
  EXPECT_THAT(queries(), IsEmpty());
}

TEST_F(CsiMetadataSourceTest, TheCertificateIsForTheAddressOrForTheNameThatWasGiven) {
  server_ =
      std::make_unique<FakeMetadataServer>(authority_.IssueServer("DNS:metadata.example"),
                                           [](const ServedQuery& query, ServedStream& stream) {
                                             return ServeTuples(query, stream, kSize, kThree);
                                           });
  cluster_.Advertise(server_->address(), authority_.ca_pem());
  const absl::Status status = List();
  EXPECT_THAT(FailureOf(status), Optional(ListingFailure::kMetadataUnavailable));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("the certificate of 127.0.0.1 is not trusted"),
                    HasSubstr("its names are DNS:metadata.example"),
                    HasSubstr("snapshot.csi-delta.io/metadata-server-name")));
  EXPECT_THAT(queries(), IsEmpty());
  options_.server_name = "metadata.example";
  EXPECT_THAT(List(), IsOk());
  options_.server_name = "";
  cluster_.api.Mutate({support::MetadataServiceType(), "", support::kDriver}, [](Json& service) {
    service["metadata"]["annotations"] = {
        {"snapshot.csi-delta.io/metadata-server-name", "metadata.example"}};
  });
  listed_.clear();
  EXPECT_THAT(List(), IsOk());
}

TEST_F(CsiMetadataSourceTest, AServersTextIsHarmlessAndHoldsNoToken) {
  Serve([](int, const ServedQuery& query, ServedStream&) {
    return absl::PermissionDeniedError(
        absl::StrCat("no\x1b[2J ", query.token, std::string(2000, 'x')));
  });
  const absl::Status status = List();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied,
                               AllOf(HasSubstr("no?[2J ***"), Not(HasSubstr("token-1")))));
  EXPECT_LT(status.message().size(), 1000U);
}

// --- What it calls its failures.

struct CodeCase {
  const char* name;
  absl::StatusCode code;
  ListingFailure delta;
  ListingFailure allocated;
  ListingFailure old_delta;  // by a service of v1alpha1
};
class CsiMetadataCodeTest : public CsiMetadataSourceTest,
                            public testing::WithParamInterface<CodeCase> {};

TEST_P(CsiMetadataCodeTest, HasItsClassAndFromAnOldServiceItsOldMeaning) {
  for (const char* version : {"v1beta1", "v1alpha1"}) {
    Serve([](int, const ServedQuery&,
             ServedStream&) { return absl::Status(GetParam().code, "refused"); },
          version);
    const absl::Status status = List();
    const bool is_old = absl::string_view(version) == "v1alpha1";
    EXPECT_THAT(FailureOf(status), Optional(is_old ? GetParam().old_delta : GetParam().delta))
        << status;
    EXPECT_THAT(FailureOf(List("")), Optional(GetParam().allocated));
    EXPECT_THAT(listed_, IsEmpty());
  }
}

using enum ListingFailure;
const CodeCase kCodes[] = {
    {"InvalidArgument", absl::StatusCode::kInvalidArgument, kNotComparable, kPermanent,
     kMetadataVersion},
    {"NotFound", absl::StatusCode::kNotFound, kBaseGone, kMetadataUnavailable, kMetadataVersion},
    {"PermissionDenied", absl::StatusCode::kPermissionDenied, kPermanent, kPermanent, kPermanent},
    {"FailedPrecondition", absl::StatusCode::kFailedPrecondition, kNotComparable, kNotComparable,
     kNotComparable},
    {"OutOfRange", absl::StatusCode::kOutOfRange, kMetadataUnavailable, kMetadataUnavailable,
     kMetadataUnavailable},
    {"Unimplemented", absl::StatusCode::kUnimplemented, kDriverHasNoService, kDriverHasNoService,
     kDriverHasNoService},
    {"Internal", absl::StatusCode::kInternal, kMetadataUnavailable, kMetadataUnavailable,
     kMetadataUnavailable},
    {"Aborted", absl::StatusCode::kAborted, kMetadataUnavailable, kMetadataUnavailable,
     kMetadataUnavailable},
    {"Unavailable", absl::StatusCode::kUnavailable, kMetadataUnavailable, kMetadataUnavailable,
     kMetadataVersion},
    {"DeadlineExceeded", absl::StatusCode::kDeadlineExceeded, kMetadataUnavailable,
     kMetadataUnavailable, kMetadataUnavailable},
    {"ResourceExhausted", absl::StatusCode::kResourceExhausted, kMetadataUnavailable,
     kMetadataUnavailable, kMetadataUnavailable},
    {"Cancelled", absl::StatusCode::kCancelled, kMetadataUnavailable, kMetadataUnavailable,
     kMetadataUnavailable},
    {"Unauthenticated", absl::StatusCode::kUnauthenticated, kPermanent, kPermanent, kPermanent},
};
INSTANTIATE_TEST_SUITE_P(Table, CsiMetadataCodeTest, testing::ValuesIn(kCodes),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(CsiMetadataSourceTest, AnOldServiceServes) {
  Serve(Honest, "v1alpha1");
  ExpectThree();
}

TEST_F(CsiMetadataSourceTest, TheBaseGoneInMidStreamIsSaid) {
  Serve([](int, const ServedQuery&, ServedStream& stream) {
    stream.Send({.capacity_bytes = kSize, .tuples = {kFirst, kSecond}});
    return absl::NotFoundError("base snapshot not found");
  });
  EXPECT_THAT(FailureOf(List()), Optional(ListingFailure::kBaseGone));
}

TEST_F(CsiMetadataSourceTest, ADriverWithoutAServiceIsSaid) {
  const absl::Status status = List();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(support::kDriver)));
  EXPECT_THAT(FailureOf(status), Optional(ListingFailure::kDriverHasNoService));
}

TEST_F(CsiMetadataSourceTest, ARefusalByTheApiServerIsPermanent) {
  for (const auto& [verb, plural] :
       std::vector<std::pair<std::string, std::string>>{{"get", "volumesnapshots"},
                                                        {"get", "volumesnapshotcontents"},
                                                        {"get", "snapshotmetadataservices"},
                                                        {"create", "serviceaccounts"},
                                                        {"create", "selfsubjectreviews"}}) {
    Serve(Honest);
    cluster_.api.Forbid(verb, plural);
    const absl::Status status = List();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(plural)));
    EXPECT_THAT(FailureOf(status), Optional(ListingFailure::kPermanent));
    cluster_.api.ClearFaults();
  }
}

// The service dies of a volume snapshot without a status.
TEST_F(CsiMetadataSourceTest, NoServiceIsAskedBeforeTheSnapshotIsReady) {
  Serve(Honest);
  cluster_.api.Mutate(VolumeSnapshotKey("app", "new"),
                      [](Json& snapshot) { snapshot.erase("status"); });
  EXPECT_THAT(List(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not ready")));
  EXPECT_THAT(queries(), IsEmpty());
}

TEST_F(CsiMetadataSourceTest, TheBaseIsOfTheSameDriverAndVolumeAndOlder) {
  Serve(Honest);
  for (const BaseState& base :
       {BaseState{.driver = "other.driver", .volume_handle = "", .creation_time = {}},
        BaseState{.driver = "", .volume_handle = "volume-2", .creation_time = {}},
        BaseState{.driver = "",
        .volume_handle = "",
        .creation_time = absl::FromUnixSeconds(1'900'000'000)}}) {
    options_.base = base;
    EXPECT_THAT(FailureOf(List()), Optional(ListingFailure::kNotComparable));
  }
  EXPECT_THAT(queries(), IsEmpty());
  options_.base = {.driver = support::kDriver,
                   .volume_handle = "volume-1",
                   .creation_time = absl::FromUnixSeconds(1'700'000'000)};
  EXPECT_THAT(List(), IsOk());
}

// --- How it ends.

TEST_F(CsiMetadataSourceTest, AStuckServerIsLeftAtOnce) {
  Serve([](int, const ServedQuery&, ServedStream& stream) {
    stream.Send({.capacity_bytes = kSize, .tuples = {kFirst, kSecond}});
    stream.Hang();
    return absl::OkStatus();
  });
  // The server hangs until it is cancelled, there is no deadline, and the clock stands still: so
  // only the stop can end the call, and without a sleep.
  options_.stream_time_max = absl::Hours(1);
  cluster_.clock.SetAutoAdvance(false);
  std::stop_source stop;
  context_.stop = stop.get_token();
  absl::Duration stopped_at;
  sink_ = [&](const ListedExtent&) {
    stopped_at = Clock::Real().Uptime();
    stop.request_stop();
    return absl::OkStatus();
  };
  {
    const support::AwaitEnd end("a listing that was stopped");
    EXPECT_THAT(List(), StatusIs(absl::StatusCode::kCancelled));
  }
  EXPECT_THAT(queries(), SizeIs(1)) << "a stopped listing is not retried";
  if (support::AssertsSeconds("a listing that is stopped ends within 2 s")) {
    EXPECT_LT(Clock::Real().Uptime() - stopped_at, absl::Seconds(2));
  }
}

TEST_F(CsiMetadataSourceTest, ASlowServerIsLeftAtTheDeadline) {
  // On a busy machine the handshake alone may take longer than a short deadline; then again, with a
  // longer one.
  absl::Status status;
  options_.stream_time_max = absl::Milliseconds(250);
  do {
    options_.stream_time_max *= 2;
    Serve([](int, const ServedQuery&, ServedStream& stream) {
      stream.Hang();
      return absl::OkStatus();
    });
    status = List();
  } while (queries().empty() && options_.stream_time_max < absl::Seconds(60));
  EXPECT_THAT(FailureOf(status), Optional(ListingFailure::kMetadataUnavailable));
  EXPECT_THAT(queries(), SizeIs(1)) << "the same again takes as long";
}

TEST_F(CsiMetadataSourceTest, TheSinksErrorComesBackAsItIs) {
  Serve(Honest);
  sink_ = [](const ListedExtent&) { return absl::DataLossError("disk"); };
  const absl::Status status = List();
  EXPECT_EQ(status, absl::DataLossError("disk"));
  EXPECT_THAT(queries(), SizeIs(1));
}

TEST_F(CsiMetadataSourceTest, MemoryDoesNotGrowWithTheList) {
  constexpr int64_t kMessages = 1100;  // A list of eight bytes an extent would be 34 MiB.
  constexpr int64_t kPerMessage = 4096;
  constexpr int64_t kHuge = int64_t{64} << 40;
  Serve([](int n, const ServedQuery&, ServedStream& stream) {
    ServedMessage message{.capacity_bytes = kHuge, .tuples = {}};
    message.tuples.resize(kPerMessage);
    for (int64_t i = 0; n == 1 && i < kMessages; ++i) {
      for (int64_t j = 0; j < kPerMessage; ++j) {
        message.tuples[static_cast<std::size_t>(j)] = {(i * kPerMessage + j) << 23, 1 << 22};
      }
      stream.Send(message);
    }
    return absl::OkStatus();
  });
  csi::AudienceTokens tokens(cluster_.api, {});
  CsiMetadataSource source(cluster_.api, tokens, Random::Real(), options_);
  int64_t extents = 0;
  std::optional<support::MemoryGrowth> growth;
  ASSERT_THAT(source.ListExtents(context_, {.base = "", .target = "app/new", .size_bytes = kHuge},
                                 [&](const ListedExtent&) {
                                   if (++extents == 8 * kPerMessage) {
                                     growth.emplace();
                                   }
                                   return absl::OkStatus();
                                 }),
              IsOk());
  EXPECT_EQ(extents, kMessages * kPerMessage);
  ASSERT_TRUE(growth.has_value());
  if (support::AssertsUnsanitized("a list of extents takes less than 32 MiB")) {
    EXPECT_LT(growth->bytes(), int64_t{32} << 20);
  }
}

}  // namespace
}  // namespace csidelta::incremental::csi_metadata_source_test
