#include "k8s/rest_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/random.h"
#include "base/rate_limiter.h"
#include "base/rfc3339.h"
#include "k8s/event_recorder.h"
#include "k8s/object.h"
#include "k8s/wait.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::rest_client_test {
namespace {

using support::ApiTestServer;
using support::FakeApiClient;
using support::FakeClock;
using support::IsOk;
using support::ServedConnection;
using support::ServedRequest;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;

const ResourceType kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
const ResourceType kEvents{"", "v1", "events", "Event", true};
const ResourceType kNodes{"", "v1", "nodes", "Node", false};
const ObjectKey kKey{kConfigMaps, "ns", "one"};

Json ConfigMap(const std::string& name) {
  return Json{{"apiVersion", "v1"},
              {"kind", "ConfigMap"},
              {"metadata", {{"name", name}, {"namespace", "ns"}}},
              {"data", {{"key", "value"}}}};
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
}

// Delays as long as they can be: how long a client goes on trying is a number then.
class NoChance : public Random {
 public:
  uint64_t Below(uint64_t) override { return 0; }
};

// A client and a server that speaks for a fake. `fault` may answer instead; it sees every request.
// The clock jumps over every pause.
class RestClientTest : public testing::Test {
 protected:
  using Fault = ApiTestServer::Fault;

  void Start(Fault fault = nullptr, const std::string& user = "{token: abc}",
             support::TestServerOptions options = {}) {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
    server_ = std::make_unique<ApiTestServer>(
        fake_, std::vector<ResourceType>{kConfigMaps, kEvents, kNodes}, std::move(options),
        [this, fault](const ServedRequest& request, ServedConnection& connection) {
          if (request.target == "/version") {  // Every user may ask for it.
            connection.Send(version_status_, R"({"message":"forbidden"})");
            ++version_requests_;
            return true;
          }
          {
            std::scoped_lock lock(mutex_);
            requests_.push_back(request);
          }
          return fault && fault(request, connection);
        });
    WriteText(path_, server_->Kubeconfig(user));
    settings_.own_kubeconfig = path_;
    client_ = MakeClient(settings_, random_);
  }

  void TearDown() override { unlink(path_.c_str()); }

  // The first `times` requests are answered by `answer`.
  static Fault FirstTimes(int times, std::function<void(ServedConnection&)> answer) {
    auto left = std::make_shared<std::atomic<int>>(times);
    return [left, answer](const ServedRequest&, ServedConnection& connection) {
      if ((*left)-- <= 0) {
        return false;
      }
      answer(connection);
      return true;
    };
  }

  // They are answered by this.
  static Fault FirstTimes(int times, int status, const std::string& body = "",
                          const support::Headers& headers = {}) {
    return FirstTimes(
        times, [=](ServedConnection& connection) { connection.Send(status, body, headers); });
  }
  // ConfigMaps "c0" and so on.
  void SeedMany(int count) {
    for (int i = 0; i < count; ++i) {
      fake_.Seed(kConfigMaps, ConfigMap(absl::StrCat("c", i)));
    }
  }

  std::vector<ServedRequest> requests() {
    std::scoped_lock lock(mutex_);
    return requests_;
  }

  const std::string path_ = testing::TempDir() + "rest-kubeconfig-" + std::to_string(getpid());
  FakeApiClient fake_;
  FakeClock clock_;
  CallContext ctx_;
  ClientSettings settings_;
  NoChance random_;
  std::mutex mutex_;
  std::vector<ServedRequest> requests_;
  std::atomic<int> version_status_ = 200;
  std::atomic<int> version_requests_ = 0;
  std::unique_ptr<ApiTestServer> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(RestClientTest, MakingAClientReadsNothing) {
  settings_.own_kubeconfig = path_ + "-missing";
  const std::unique_ptr<ApiClient> client = MakeClient(settings_);
  EXPECT_THAT(client->Get({}, kKey),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(path_ + "-missing")));
}

TEST_F(RestClientTest, SaysWhoItIs) {
  settings_.version = "1.2.3";
  Start();
  fake_.Seed(kConfigMaps, ConfigMap("one"));
  ASSERT_THAT(client_->Get(ctx_, kKey), IsOk());
  EXPECT_EQ(requests()[0].headers["user-agent"], "velero-plugin-for-csi-delta/1.2.3");
  EXPECT_EQ(requests()[0].headers["authorization"], "Bearer abc");
  EXPECT_EQ(requests()[0].headers["accept"], "application/json");
}

TEST_F(RestClientTest, TellsItsPasswordWhenItHasNoToken) {
  Start(nullptr, "{username: u, password: p}");
  client_->Get(ctx_, kKey).status().IgnoreError();
  EXPECT_EQ(requests()[0].headers["authorization"], "Basic dTpw");
}

TEST_F(RestClientTest, UnknownFieldsAndLargeNumbersSurvive) {
  Start();
  Json object = ConfigMap("one");
  object["unknown"] = {{"large", int64_t{9007199254740993}}, {"max", UINT64_MAX}};
  ASSERT_THAT(client_->Create(ctx_, kConfigMaps, "ns", object), IsOk());
  const absl::StatusOr<Json> read = client_->Get(ctx_, kKey);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ((*read)["unknown"], object["unknown"]);
}

TEST_F(RestClientTest, APageThatIsHandedOnIsSmallUnlessALargerOneIsAskedFor) {
  Start();
  SeedMany(120);
  std::vector<std::size_t> sizes;
  const auto sink = [&](const std::vector<Json>& page, bool) { sizes.push_back(page.size()); };
  EXPECT_THAT(client_->ListPages(ctx_, kConfigMaps, "ns", {}, sink), IsOk());
  EXPECT_THAT(
      client_->ListPages(ctx_, kConfigMaps, "ns",
                         {.label_selector = "", .field_selector = "", .page_items_max = 500}, sink),
      IsOk());
  EXPECT_THAT(sizes, testing::ElementsAre(100, 20, 120));
}

TEST_F(RestClientTest, PagesAreJoinedOrHandedOnAsTheyCome) {
  settings_.page_items_max = 3;
  bool grows_old = false;
  Start([&](const ServedRequest& request, ServedConnection& connection) {
    if (!grows_old || request.target.find("continue=") == std::string::npos) {
      return false;
    }
    connection.Send(410, R"({"kind":"Status","code":410,"reason":"Expired"})");
    return true;
  });
  SeedMany(7);
  std::vector<std::pair<std::size_t, bool>> pages;
  const auto list = [&] {
    pages.clear();
    return client_->ListPages(ctx_, kConfigMaps, "ns", {},
                              [&](const std::vector<Json>& page, bool is_first) {
                                pages.emplace_back(page.size(), is_first);
                              });
  };
  EXPECT_THAT(list(), IsOk());
  using testing::Pair;
  EXPECT_THAT(pages, testing::ElementsAre(Pair(3, true), Pair(3, false), Pair(1, false)));
  const auto joined = [&] { return client_->List(ctx_, kConfigMaps, "ns", {}).value().items; };
  EXPECT_EQ(joined().size(), 7u);
  EXPECT_EQ(requests().size(), 6u) << "as many pages";
  grows_old = true;
  EXPECT_THAT(list(), StatusIs(absl::StatusCode::kOutOfRange)) << "never all of it at once";
  EXPECT_EQ(joined().size(), 7u) << "all of it at once";
}

TEST_F(RestClientTest, PagesAreOfOneMoment) {
  settings_.page_items_max = 2;
  Start();
  SeedMany(3);
  std::vector<std::string> names;
  const auto sink = [&](const std::vector<Json>& page, bool) {
    for (const Json& object : page) {
      names.push_back(Name(object));
    }
    fake_.Remove({kConfigMaps, "ns", "c0"});
    fake_.Seed(kConfigMaps, ConfigMap("c3"));
  };
  EXPECT_THAT(client_->ListPages(ctx_, kConfigMaps, "ns", {}, sink), IsOk());
  EXPECT_THAT(names, testing::ElementsAre("c0", "c1", "c2"));
}

// Lists that the server gives out of its memory.
class ListFromMemoryTest : public RestClientTest {
 protected:
  ListFromMemoryTest() { SeedMany(7); }

  absl::StatusOr<std::string> List() {
    names_.clear();
    const auto sink = [&](const std::vector<Json>& page, bool is_first) {
      if (is_first) {
        names_.clear();
      }
      for (const Json& object : page) {
        EXPECT_EQ(GetString(object, {"kind"}), "ConfigMap");
        names_.push_back(Name(object));
      }
    };
    if (is_in_one_answer_) {
      return client_->ListPages(ctx_, kConfigMaps, "ns",
                                {.label_selector = "", .field_selector = "", .in_one_answer = true},
                                sink);
    }
    return client_->ListWanted(
        ctx_, kConfigMaps, "ns",
        [&](absl::string_view name) { return wanted_.contains(std::string(name)); }, sink);
  }
  static bool IsFromMemory(const ServedRequest& request) {
    return absl::EndsWith(request.target, "?resourceVersion=0");
  }

  bool is_in_one_answer_ = false;
  std::set<std::string> wanted_ = {"c0", "c1", "c2", "c3", "c4", "c5", "c6"};
  std::vector<std::string> names_;
};

// Of what is held in memory, or, where no names are wanted, as it is now.
TEST_F(ListFromMemoryTest, IsOneAnswerOfWhichWhatIsNotWantedIsLeftOut) {
  settings_.page_items_max = 3;
  for (const bool is_in_one_answer : {true, false}) {
    is_in_one_answer_ = is_in_one_answer;
    requests_.clear();
    Start();
    const absl::StatusOr<std::string> version = List();
    ASSERT_THAT(version, IsOk());
    EXPECT_FALSE(version->empty());
    EXPECT_EQ(names_.size(), 7u);
    ASSERT_EQ(requests().size(), 1u);
    EXPECT_THAT(requests()[0].target,
                testing::EndsWith(is_in_one_answer ? "/configmaps" : "?resourceVersion=0"));
  }
  wanted_ = {"c3", "c6", "gone"};
  ASSERT_THAT(List(), IsOk());
  EXPECT_THAT(names_, testing::ElementsAre("c3", "c6"));
}

TEST_F(ListFromMemoryTest, AServerWhoseMemoryIsBehindIsAskedForPagesAtOnce) {
  for (const char* const answer :
       {R"({"kind":"Status","code":504,"reason":"Timeout","message":"Too large resource version"})",
        R"({"kind":"Status","code":410,"reason":"Expired"})"}) {
    requests_.clear();
    Start([&](const ServedRequest& request, ServedConnection& connection) {
      if (!IsFromMemory(request)) {
        return false;
      }
      connection.Send(absl::StrContains(answer, "504") ? 504 : 410, answer);
      return true;
    });
    ASSERT_THAT(List(), IsOk()) << answer;
    EXPECT_EQ(names_.size(), 7u);
    EXPECT_EQ(requests().size(), 2u) << "it is not asked again before";
  }
}

// The first answer, to a request for all at once, ends in the middle of an object.
TEST_F(ListFromMemoryTest, AnAnswerThatBreaksOffBeginsAgainInPages) {
  settings_.page_items_max = 3;
  for (const bool is_in_one_answer : {false, true}) {
    is_in_one_answer_ = is_in_one_answer;
    requests_.clear();
    Start([&](const ServedRequest& request, ServedConnection& connection) {
      if (!IsFromMemory(request) && !absl::EndsWith(request.target, "/configmaps")) {
        return false;
      }
      connection.Send(200, R"({"items":[{"metadata":{"name":"c0"}},{"metadata":{"name":"c)");
      return true;
    });
    ASSERT_THAT(List(), IsOk());
    EXPECT_EQ(names_.size(), 7u) << "what came before does not count";
    EXPECT_EQ(requests().size(), 4u);
  }
}

TEST_F(ListFromMemoryTest, ARefusalIsTheAnswer) {
  for (const bool is_in_one_answer : {false, true}) {
    is_in_one_answer_ = is_in_one_answer;
    requests_.clear();
    Start(FirstTimes(99, 403, R"({"kind":"Status","code":403,"message":"not allowed"})"));
    EXPECT_THAT(List(), StatusIs(absl::StatusCode::kPermissionDenied,
                                 AllOf(HasSubstr("configmaps"), HasSubstr("not allowed"))));
    EXPECT_EQ(requests().size(), 1u);
  }
}

TEST_F(ListFromMemoryTest, AListInOneAnswerWaitsUntilTheRolesAreRead) {
  is_in_one_answer_ = true;
  version_status_ = 403;
  Start(FirstTimes(2, 403, R"({"message":"forbidden"})"));
  ASSERT_THAT(List(), IsOk());
  EXPECT_EQ(names_.size(), 7u);
  EXPECT_EQ(requests().size(), 3u);
}

TEST_F(RestClientTest, ReadsTheEndOfALog) {
  const ObjectKey pod{{"", "v1", "pods", "Pod", true}, "ns", "one"};
  Start([](const ServedRequest& request, ServedConnection& connection) {
    connection.Send(request.target.ends_with("8388608") ? 200 : 403, "{not JSON\n");
    return true;
  });
  const absl::StatusOr<std::string> log = client_->ReadLog(ctx_, pod, "mover", true);
  ASSERT_THAT(log, IsOk());
  EXPECT_EQ(*log, "{not JSON\n");
  EXPECT_EQ(requests_.back().target,
            "/api/v1/namespaces/ns/pods/one/log?container=mover&previous=true&tailLines=2000"
            "&limitBytes=8388608");
  EXPECT_THAT(fake_.ReadLog(ctx_, pod, "mover", false), StatusIs(absl::StatusCode::kUnimplemented));
}

TEST_F(RestClientTest, AListThatIsRefusedNamesTheKindAndTheNamespace) {
  Start(FirstTimes(2, 403, R"({"kind":"Status","code":403,"message":"not allowed"})"));
  EXPECT_THAT(client_->List(ctx_, kConfigMaps, "ns", {}),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("configmaps"), HasSubstr("ns"), HasSubstr("not allowed"))));
}

TEST_F(RestClientTest, AKeyMustHaveANamespaceWhereItsKindHasOne) {
  Start();
  EXPECT_THAT(client_->Get(ctx_, {kConfigMaps, "", "one"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("namespace is missing")));
  EXPECT_THAT(client_->Get(ctx_, {kNodes, "ns", "one"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no namespaces")));
  for (const char* name : {"", ".", ".."}) {
    EXPECT_THAT(client_->Get(ctx_, {kConfigMaps, "ns", name}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name is missing")));
  }
  EXPECT_TRUE(requests().empty());
}

TEST_F(RestClientTest, WaitsAsLongAsTheServerAsks) {
  for (const int status : {429, 500, 503}) {
    Start(FirstTimes(2, status, "", {{"Retry-After", "7"}}));
    const absl::Time start = clock_.Now();
    EXPECT_THAT(client_->Create(ctx_, kConfigMaps, "ns", ConfigMap("c" + std::to_string(status))),
                IsOk());
    EXPECT_EQ(clock_.Now() - start, absl::Seconds(14));
  }
}

TEST_F(RestClientTest, DoesNotWaitBeyondTheDeadline) {
  Start(FirstTimes(100, 429, R"({"message":"slow down"})", {{"Retry-After", "3600"}}));
  const absl::Time start = clock_.Now();
  EXPECT_THAT(client_->Get(ctx_.WithTimeout(absl::Seconds(30)), kKey),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("slow down")));
  EXPECT_EQ(clock_.Now(), start);
  EXPECT_EQ(requests().size(), 1u);
}

TEST_F(RestClientTest, GivesUpWhenTheBudgetIsSpent) {
  Start(FirstTimes(1000, 500));
  EXPECT_THAT(client_->Get(ctx_, kKey),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("configmaps ns/one")));
  EXPECT_EQ(requests().size(), 12u);
}

TEST_F(RestClientTest, WhatAWebhookDeniedIsTheAnswer) {
  Start(
      FirstTimes(1000, 500, R"({"message":"admission webhook \"v.io\" denied the request: no"})"));
  EXPECT_THAT(client_->Delete(ctx_, kKey, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("denied the request: no")));
  EXPECT_EQ(requests().size(), 1u);
}

// Not even a create without a name can have been done.
TEST_F(RestClientTest, AsksAgainWhenAWebhookIsAway) {
  Start(
      FirstTimes(3, 500, R"({"message":"Internal error: failed calling webhook \"v.io\": away"})"));
  Json object = ConfigMap("one");
  EraseJson(object, {"metadata", "name"});
  SetJson(object, {"metadata", "generateName"}, "some-");
  EXPECT_THAT(client_->Create(ctx_, kConfigMaps, "ns", object), IsOk());
  EXPECT_EQ(requests().size(), 4u);
}

TEST_F(RestClientTest, TriesAgainWhatMayBeDoneTwice) {
  const auto cut = [](ServedConnection& connection) {
    connection.Raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"half\":");
    connection.Cut();
  };
  Start(FirstTimes(3, cut));
  fake_.Seed(kConfigMaps, ConfigMap("one"));
  EXPECT_THAT(client_->Get(ctx_, kKey), IsOk());
  EXPECT_EQ(requests().size(), 4u);
}

// The first answer is lost before or after the object was made, by this create or by another
// client.
TEST_F(RestClientTest, ACreateWhoseAnswerWasLostIsRepeatedUnderItsName) {
  for (const bool by_connection : {true, false}) {
    const auto lose = [&](ServedConnection& connection) {
      if (by_connection) {
        connection.Cut();
      } else {
        connection.Send(502, "bad gateway");
      }
    };
    Start(FirstTimes(1, lose));
    EXPECT_THAT(client_->Create(ctx_, kConfigMaps, "ns", ConfigMap("new")), IsOk());

    Json made = ConfigMap("made");
    made["metadata"]["labels"] = {{"added-by", "a webhook"}};
    fake_.Seed(kConfigMaps, made);
    Start(FirstTimes(1, lose));
    Json sent = ConfigMap("made");
    sent["status"] = {{"phase", "new"}};
    sent["metadata"]["annotations"] = Json::object();
    const auto created = client_->Create(ctx_, kConfigMaps, "ns", sent);
    ASSERT_THAT(created, IsOk());
    EXPECT_EQ(k8s::Label(*created, "added-by"), "a webhook");

    Json other = ConfigMap("other");
    other["data"]["key"] = "of another client";
    fake_.Seed(kConfigMaps, other);
    Start(FirstTimes(1, lose));
    EXPECT_THAT(client_->Create(ctx_, kConfigMaps, "ns", ConfigMap("other")),
                StatusIs(absl::StatusCode::kAlreadyExists));
    for (const char* name : {"new", "made", "other"}) {
      EXPECT_THAT(fake_.Delete(ctx_, {kConfigMaps, "ns", name}, {}), IsOk());
    }
  }
}

TEST_F(RestClientTest, ACreateThatIsNeverAnsweredEndsWithItsCallersTime) {
  Start(FirstTimes(1'000, [](ServedConnection& connection) { connection.Cut(); }));
  ctx_ = ctx_.WithTimeout(absl::Seconds(2));
  EXPECT_THAT(client_->Create(ctx_, kConfigMaps, "ns", ConfigMap("one")),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("create configmaps ns/one")));
  EXPECT_LT(requests().size(), 12u);
}

TEST_F(RestClientTest, DoesNotCreateTwiceWithoutAName) {
  Start(FirstTimes(1, [](ServedConnection& connection) { connection.Cut(); }));
  Json nameless = ConfigMap("");
  nameless["metadata"] = {{"generateName", "one-"}};
  EXPECT_THAT(client_->Create(ctx_, kConfigMaps, "ns", nameless),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(requests().size(), 1u);
}

TEST_F(RestClientTest, DoesNotRepeatAJsonPatch) {
  Start(FirstTimes(1, 500));
  EXPECT_THAT(client_->Patch(ctx_, kKey, PatchKind::kJson, Json::array(), ""),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(requests().size(), 1u);
}

TEST_F(RestClientTest, ACreateIsTriedForAWhileWhereNothingListens) {
  Start();
  server_.reset();
  EXPECT_THAT(client_->Create(ctx_, kConfigMaps, "ns", ConfigMap("one")),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1")));
  EXPECT_GT(clock_.Now(), absl::FromUnixSeconds(1'700'000'020));
}

// A kube-apiserver that has just started serves before it has read its roles.
TEST_F(RestClientTest, AfterAnOutageARefusalDoesNotCount) {
  for (const int status : {0, 503}) {  // Away, or not ready.
    auto seen = std::make_shared<std::atomic<int>>(0);
    Start([status, seen](const ServedRequest&, ServedConnection& connection) {
      const int number = (*seen)++;
      if (number < 2 && status == 0) {
        connection.Cut();
      } else if (number < 6) {
        connection.Send(number < 2 ? status : 403, R"({"message":"forbidden"})");
      }
      return number < 6;
    });
    fake_.Seed(kConfigMaps, ConfigMap("one"));
    EXPECT_THAT(client_->Get(ctx_, kKey), IsOk()) << status;
    EXPECT_EQ(*seen, 7) << status;
  }
}

TEST_F(RestClientTest, AServerThatRefusesEverybodyHasNotReadItsRoles) {
  version_status_ = 403;
  Start(FirstTimes(3, 403, R"({"message":"forbidden"})"));
  fake_.Seed(kConfigMaps, ConfigMap("one"));
  EXPECT_THAT(client_->Get(ctx_, kKey), IsOk());
  EXPECT_EQ(requests().size(), 4u);
  EXPECT_EQ(version_requests_, 1);
}

TEST_F(RestClientTest, AClusterThatKeepsItsVersionSecretIsWaitedForOnce) {
  version_status_ = 403;
  Start(FirstTimes(1000, 403, R"({"message":"forbidden"})"));
  const absl::Time start = clock_.Now();
  EXPECT_THAT(client_->Get(ctx_, kKey), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_LT(clock_.Now() - start, absl::Seconds(30));
  const std::size_t asked = requests().size();
  EXPECT_THAT(client_->Get(ctx_, kKey), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(requests().size(), asked + 1);
  EXPECT_EQ(version_requests_, 1);
}

TEST_F(RestClientTest, AfterAnOutageWhatIsRefusedIsCreatedAllTheSame) {
  Start([this](const ServedRequest& request, ServedConnection& connection) {
    if (request.method == "POST" && requests().size() < 4) {
      connection.Send(403, R"({"message":"forbidden"})");
      return true;
    }
    if (request.method == "GET") {
      connection.Send(503, "", {{"Retry-After", "3600"}});
    }
    return request.method == "GET";
  });
  EXPECT_THAT(client_->Get(ctx_.WithTimeout(absl::Seconds(30)), kKey),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(client_->Create(ctx_, kConfigMaps, "ns", ConfigMap("one")), IsOk());
}

TEST_F(RestClientTest, ARefusalThatLastsIsTheAnswer) {
  auto seen = std::make_shared<std::atomic<int>>(0);
  Start([seen](const ServedRequest&, ServedConnection& connection) {
    connection.Send((*seen)++ == 0 ? 500 : 403, R"({"message":"forbidden"})");
    return true;
  });
  const absl::Time start = clock_.Now();
  EXPECT_THAT(client_->Get(ctx_, kKey),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("forbidden")));
  EXPECT_LT(clock_.Now() - start, absl::Seconds(30));
  const int asked = *seen;
  EXPECT_GT(asked, 2);
  EXPECT_THAT(client_->Get(ctx_, kKey), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(*seen, asked + 1);
}

TEST_F(RestClientTest, AnAnswerThatIsNoObjectIsUnavailable) {
  for (const char* body : {"", "<html>", "[1]", "{\"cut\":"}) {
    Start(FirstTimes(1, 200, body));
    EXPECT_THAT(client_->Get(ctx_, kKey), StatusIs(absl::StatusCode::kUnavailable)) << body;
  }
}

TEST_F(RestClientTest, ReadsTheTokenAgainWhenRefused) {
  const std::string token_path = path_ + "-token";
  WriteText(token_path, "old\n");
  Start(
      [&](const ServedRequest& request, ServedConnection& connection) {
        if (request.headers.at("authorization") == "Bearer new") {
          return false;
        }
        WriteText(token_path, "new\n");
        connection.Send(401, R"({"message":"Unauthorized"})");
        return true;
      },
      "{tokenFile: " + token_path + "}");
  fake_.Seed(kConfigMaps, ConfigMap("one"));
  EXPECT_THAT(client_->Get(ctx_, kKey), IsOk());
  EXPECT_EQ(requests().size(), 2u);
  unlink(token_path.c_str());
}

TEST_F(RestClientTest, ReadsTheTokenAgainWhenItIsOld) {
  const std::string token_path = path_ + "-token";
  WriteText(token_path, "old");
  Start(nullptr, "{tokenFile: " + token_path + "}");
  client_->Get(ctx_, kKey).status().IgnoreError();
  WriteText(token_path, "new");
  client_->Get(ctx_, kKey).status().IgnoreError();
  clock_.Advance(absl::Minutes(1));
  client_->Get(ctx_, kKey).status().IgnoreError();
  unlink(token_path.c_str());
  clock_.Advance(absl::Minutes(1));
  client_->Get(ctx_, kKey).status().IgnoreError();
  std::vector<std::string> tokens;
  for (ServedRequest& request : requests_) {
    tokens.push_back(request.headers["authorization"]);
  }
  EXPECT_THAT(tokens, testing::ElementsAre("Bearer old", "Bearer old", "Bearer new", "Bearer new"));
}

constexpr char kExecUser[] =
    "{exec: {apiVersion: client.authentication.k8s.io/v1, command: login, interactiveMode: Never}}";

// A log-in program whose n-th answer is the token t<n>.
ExecRunner CountingLogIn(int& runs) {
  return [&runs](const CallContext&, const ExecPlugin&, const std::string&) {
    return absl::StrCat(
        R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t)",
        ++runs, R"("}})");
  };
}

TEST_F(RestClientTest, LogsInByAProgramAndAgainWhenRefused) {
  int runs = 0;
  settings_.run_exec = CountingLogIn(runs);
  Start(
      [](const ServedRequest& request, ServedConnection& connection) {
        if (request.headers.at("authorization") == "Bearer t2") {
          return false;
        }
        connection.Send(401, R"({"message":"Unauthorized"})");
        return true;
      },
      kExecUser);
  fake_.Seed(kConfigMaps, ConfigMap("one"));
  EXPECT_THAT(client_->Get(ctx_, kKey), IsOk());
  EXPECT_THAT(client_->Get(ctx_, kKey), IsOk());
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(requests().size(), 3u);
}

TEST_F(RestClientTest, AProgramWhoseTokensAreRefusedIsRunTwice) {
  int runs = 0;
  settings_.run_exec = CountingLogIn(runs);
  Start(FirstTimes(100, 401), kExecUser);
  EXPECT_THAT(client_->Get(ctx_, kKey), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(runs, 2);
}

TEST_F(RestClientTest, AClientCertificateKeepsItsConnectionUntilItChanges) {
  support::Credentials credentials;
  settings_.run_exec = [&](const CallContext&, const ExecPlugin&, const std::string&) {
    return DumpJson({{"apiVersion", "client.authentication.k8s.io/v1"},
                     {"kind", "ExecCredential"},
                     {"status",
                      {{"clientCertificateData", credentials.certificate_pem},
                       {"clientKeyData", credentials.key_pem},
                       {"expirationTimestamp", FormatRfc3339(clock_.Now() + absl::Hours(1))}}}});
  };
  Start(nullptr, kExecUser, {.tls = true, .ask_for_client_certificate = true});
  fake_.Seed(kConfigMaps, ConfigMap("one"));
  for (const char* user : {"first", "second"}) {
    credentials = server_->http().authority().IssueClient(user);
    EXPECT_THAT(client_->Get(ctx_, kKey), IsOk());
    EXPECT_THAT(client_->Get(ctx_, kKey), IsOk());
    clock_.Advance(absl::Hours(1));
  }
  const std::vector<ServedRequest> served = requests();
  ASSERT_EQ(served.size(), 4u);
  EXPECT_EQ(served[1].client_common_name, "first");
  EXPECT_EQ(served[1].connection, served[0].connection);
  EXPECT_EQ(served[2].client_common_name, "second");
  EXPECT_NE(served[2].connection, served[1].connection);
  EXPECT_EQ(served[3].connection, served[2].connection);
}

TEST_F(RestClientTest, AServerThatIsNotTrustedIsNotTriedAgain) {
  Start(nullptr, "{token: abc}", {.tls = true});
  WriteText(path_, absl::StrReplaceAll(server_->Kubeconfig(),
                                       {{absl::Base64Escape(server_->http().authority().ca_pem()),
                                         absl::Base64Escape(support::TestAuthority().ca_pem())}}));
  const absl::Time start = clock_.Now();
  EXPECT_THAT(client_->Get(ctx_, kKey), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(clock_.Now(), start);
  EXPECT_TRUE(requests().empty());
}

TEST_F(RestClientTest, ALogInThatFailsIsNotAboutTheObject) {
  settings_.run_exec = [](const CallContext&, const ExecPlugin&, const std::string&) {
    return absl::NotFoundError("login: No such file or directory");
  };
  Start(nullptr, kExecUser);
  EXPECT_THAT(client_->Get(ctx_, kKey), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                 HasSubstr("cannot reach the API server")));
  EXPECT_TRUE(requests().empty());
}

TEST_F(RestClientTest, ActsAsTheUserThatTheKubeconfigNames) {
  Start(nullptr,
        "{token: abc, as: alice, as-uid: u-1, as-groups: [dba], as-user-extra: {'a/b': [c]}}");
  client_->Get(ctx_, kKey).status().IgnoreError();
  const auto headers = requests().at(0).headers;
  EXPECT_EQ(headers.at("authorization"), "Bearer abc");
  EXPECT_EQ(headers.at("impersonate-user"), "alice");
  EXPECT_EQ(headers.at("impersonate-uid"), "u-1");
  EXPECT_EQ(headers.at("impersonate-group"), "dba");
  EXPECT_EQ(headers.at("impersonate-extra-a%2fb"), "c");
}

TEST_F(RestClientTest, AsksOnlyOnceForAnotherToken) {
  Start(FirstTimes(100, 401));
  EXPECT_THAT(client_->Get(ctx_, kKey), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(requests().size(), 1u);
}

TEST_F(RestClientTest, WatchesAskForBookmarksAndAnEnd) {
  Start();
  fake_.SendBookmarks();
  EXPECT_THAT(client_->Watch(ctx_, kConfigMaps, "ns", {"a=b", "metadata.name=one", "1000"},
                             [](const WatchEvent& event) {
                               EXPECT_EQ(event.kind, WatchEvent::Kind::kBookmark);
                               return false;
                             }),
              IsOk());
  const std::string target = requests()[0].target;
  for (const char* part :
       {"watch=true", "allowWatchBookmarks=true", "resourceVersion=1000", "labelSelector=a%3Db"}) {
    EXPECT_THAT(target, HasSubstr(part));
  }
  const std::string timeout = "timeoutSeconds=";
  ASSERT_THAT(target, HasSubstr(timeout));
  // Drawn, so that not all watches end at once.
  const int seconds = std::atoi(target.c_str() + target.find(timeout) + timeout.size());
  EXPECT_GE(seconds, 240);
  EXPECT_LE(seconds, 300);
}

class WatchFaultTest : public RestClientTest {
 protected:
  absl::Status WatchOnce(const Fault& answer) {
    Start(answer);
    return client_->Watch(ctx_, kConfigMaps, "ns", {"", "", "1000"}, [&](const WatchEvent&) {
      ++events_;
      return true;
    });
  }
  // The answer is this stream, which then ends.
  absl::Status WatchOnce(const std::vector<std::string>& chunks) {
    return WatchOnce(FirstTimes(1, [chunks](ServedConnection& connection) {
      connection.StartStream(200);
      for (std::size_t i = 0; i < chunks.size() && connection.Chunk(chunks[i]); ++i) {
      }
      connection.EndStream();
    }));
  }
  static constexpr char kAdded[] = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{}}}\n";
  int events_ = 0;
};

// "404 page not found" is no Status: the path is not served.
TEST_F(RestClientTest, AKindThatIsNotServedIsNamedOrExplained) {
  const Fault unserved = FirstTimes(2, 404, "404 page not found\n");
  Start(unserved);
  const auto not_served = [](const std::string& text) {
    return StatusIs(absl::StatusCode::kNotFound, HasSubstr(text));
  };
  EXPECT_THAT(
      client_->List(ctx_, kConfigMaps, "ns", {}).status(),
      not_served("list configmaps in ns: the API server does not serve the kind ConfigMap"));
  settings_.explain_unserved = [](const ResourceType& type) { return type.kind + ": install it"; };
  Start(unserved);
  EXPECT_THAT(client_->Get(ctx_, {kConfigMaps, "ns", "a"}).status(),
              not_served("get configmaps ns/a: ConfigMap: install it"));
  Start();
  EXPECT_THAT(client_->Get(ctx_, {kConfigMaps, "ns", "a"}).status(), not_served("not found"));
}

TEST_F(RestClientTest, AServerThatHasNeverAnsweredIsNotWaitedForLong) {
  settings_.reach_time_max = absl::Seconds(1);
  Start(FirstTimes(1000, 503));
  EXPECT_THAT(client_->Get(ctx_, {kConfigMaps, "ns", "a"}).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("; check the network")));
  EXPECT_LE(requests().size(), 5U);
}

TEST_F(WatchFaultTest, TheServersEndIsOk) {
  EXPECT_THAT(WatchOnce({kAdded}), IsOk());
  EXPECT_EQ(events_, 1);
}

TEST_F(WatchFaultTest, ACutStreamIsUnavailable) {
  EXPECT_THAT(WatchOnce(FirstTimes(1,
                                   [](ServedConnection& connection) {
                                     connection.StartStream(200);
                                     connection.Chunk(kAdded);
                                     connection.Cut();
                                   })),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(events_, 1);
  EXPECT_EQ(requests().size(), 1u);
}

TEST_F(WatchFaultTest, TooOldIsOutOfRangeInBothForms) {
  const std::string gone = R"({"kind":"Status","code":410,"reason":"Expired","message":"too old"})";
  EXPECT_THAT(WatchOnce(FirstTimes(1, 410, gone)),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("watch configmaps: too old")));
  EXPECT_THAT(WatchOnce({kAdded, "{\"type\":\"ERROR\",\"object\":" + gone + "}\n"}),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(events_, 1);
}

TEST_F(WatchFaultTest, GarbageIsUnavailable) {
  EXPECT_THAT(WatchOnce({"<html>\n"}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(WatchFaultTest, AnEndlessLineEndsTheWatch) {
  const std::vector<std::string> pieces(64, std::string(std::size_t{1} << 20, 'x'));
  EXPECT_THAT(WatchOnce(pieces), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(WatchFaultTest, WaitForSurvivesThemAll) {
  const std::string gone = R"({"kind":"Status","code":410,"reason":"Expired"})";
  std::atomic<int> watches = 0;
  Start([&](const ServedRequest& request, ServedConnection& connection) {
    if (request.target.find("watch=true") == std::string::npos) {
      return false;
    }
    switch (++watches) {
      case 1:
        connection.Cut();
        return true;
      case 2:
        connection.Send(410, gone);
        return true;
      case 3:
        connection.StartStream(200);
        connection.Chunk("garbage\n");
        connection.Cut();
        return true;
      case 4:
        connection.Send(429, "", {{"Retry-After", "1"}});
        return true;
      default:
        fake_.Seed(kConfigMaps, ConfigMap("one"));
        return false;
    }
  });
  EXPECT_THAT(WaitFor(ctx_, *client_, kKey, [](const Json* object) { return object != nullptr; }),
              IsOk());
}

TEST_F(RestClientTest, EventsNameTheirObject) {
  Start();
  const Json object = fake_.Seed(kConfigMaps, ConfigMap("one"));
  const std::string message = std::string(1023, 'x') + "ä tail";
  ASSERT_THAT(EmitEvent(ctx_, *client_, object, EventType::kWarning, "SnapshotGone", message),
              IsOk());
  const Json node = fake_.Seed(kNodes, Json{{"metadata", {{"name", "n1"}}}});
  ASSERT_THAT(EmitEvent(ctx_, *client_, node, EventType::kNormal, "Seen", "hello"), IsOk());
  const std::vector<Json> events = fake_.All(kEvents);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(k8s::Namespace(events[0]), "default");
  EXPECT_EQ(GetString(events[0], {"type"}), "Normal");
  EXPECT_EQ(k8s::Namespace(events[1]), "ns");
  EXPECT_EQ(GetString(events[1], {"involvedObject", "uid"}), k8s::Uid(object));
  EXPECT_EQ(GetString(events[1], {"type"}), "Warning");
  EXPECT_EQ(GetString(events[1], {"message"}), std::string(1023, 'x'));
}

class RateLimiterTest : public testing::Test {
 protected:
  RateLimiterTest() { clock_.SetAutoAdvance(true); }

  // How long so many calls wait in all.
  absl::Duration Take(RateLimiter& limiter, int calls,
                      RateLimiter::Kind kind = RateLimiter::Kind::kBegins) {
    const absl::Time start = clock_.Now();
    for (int i = 0; i < calls; ++i) {
      EXPECT_THAT(limiter.Take(ctx_, 1, kind), IsOk());
    }
    return clock_.Now() - start;
  }

  FakeClock clock_;
  CallContext ctx_{.clock = &clock_};
};

TEST_F(RateLimiterTest, LetsABurstPassAndThenItsRate) {
  RateLimiter limiter(10, 5);
  EXPECT_EQ(Take(limiter, 5), absl::ZeroDuration());
  EXPECT_EQ(Take(limiter, 10), absl::Seconds(1));
  const absl::Time refused_at = clock_.Now();
  EXPECT_THAT(limiter.Take(ctx_.WithTimeout(absl::Milliseconds(50))),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(clock_.Now(), refused_at);
  RateLimiter unlimited(0, 0);
  EXPECT_EQ(Take(unlimited, 1000), absl::ZeroDuration());
}

TEST_F(RateLimiterTest, WhatGoesOnDoesNotWaitBehindWhatBegins) {
  RateLimiter limiter(10, 2);
  constexpr auto kGoesOn = RateLimiter::Kind::kGoesOn;
  EXPECT_EQ(Take(limiter, 2), absl::ZeroDuration());
  EXPECT_EQ(Take(limiter, 2, kGoesOn), absl::ZeroDuration());
  EXPECT_EQ(Take(limiter, 1, kGoesOn), absl::Milliseconds(100)) << "they wait for each other";
  EXPECT_EQ(Take(limiter, 1), absl::Milliseconds(300)) << "and were counted";
}

}  // namespace
}  // namespace csidelta::k8s::rest_client_test
