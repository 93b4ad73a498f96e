#include "diffsnap/rest_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "incremental/sources/differential_source.h"
#include "tests/diffsnap/fake_driver.h"
#include "tests/diffsnap/fake_reviews.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_authority.h"

namespace csidelta::diffsnap::rest_server_test {
namespace {

using incremental::ChangedBlock;
using incremental::DifferentialErrorCode;
using support::IsOk;
using testing::HasSubstr;

using Headers = std::vector<std::pair<std::string, std::string>>;

class RestServerTest : public testing::Test {
 protected:
  RestServerTest() {
    for (int64_t i = 0; i < 1000; ++i) {
      driver_.blocks.push_back({.extent = {i * 8192, 4096}, .zero_out = i % 7 == 0});
    }
    driver_.has_tokens = true;
    pairs_.Put("ns", "a",
               {.scope = {.namespace_name = "ns",
                          .uid = "uid",
                          .base_handle = "base",
                          .target_handle = "target"},
                .volume_handle = "volume",
                .parameters = {},
                .start_offset = ""});
    pairs_.SetSynced();
    api_.bearers["good"] = {.user = "mover", .audience = "diffsnap"};
    api_.bearers["weak"] = {.user = "unknown", .audience = "diffsnap"};
    api_.Allow("mover differentialsnapshots ns/a");
    api_.Allow("mover differentialsnapshots ns/b");
    api_.Allow("mover volumesnapshots ns");
    const support::Credentials own = authority_.IssueServer("IP:127.0.0.1");
    net::HttpServerOptions options;
    options.read_certificate = [own]() -> absl::StatusOr<net::ServerCertificate> {
      return net::ServerCertificate{.certificate_pem = own.certificate_pem, .key_pem = own.key_pem};
    };
    http_ =
        *net::HttpServer::Start(options, [this](const CallContext& ctx, const net::HttpCall& call) {
          return rest_.Handle(ctx, call);
        });
    net::HttpClientOptions client;
    client.tls.ca_pem = authority_.ca_pem();
    client_ = std::make_unique<net::HttpClient>(client);
  }

  net::HttpResponse Get(const std::string& target,
                        Headers headers = {{"Authorization", "Bearer good"}},
                        const std::string& method = "GET") {
    const auto response = client_->Send(
        CallContext().WithTimeout(absl::Seconds(60)),
        {.method = method,
         .url = *net::ParseUrl(absl::StrCat("https://127.0.0.1:", http_->port(), target)),
         .headers = std::move(headers),
         .body = ""});
    EXPECT_THAT(response, IsOk());
    return response.ok() ? *response : net::HttpResponse{};
  }

  void ExpectError(const net::HttpResponse& response, DifferentialErrorCode code) {
    EXPECT_EQ(response.status, HttpStatusOf(code));
    EXPECT_EQ(ErrorName(incremental::ParseError(response.status, response.body).code),
              ErrorName(code))
        << response.body;
    EXPECT_EQ(response.headers.at("content-type"), "application/json");
  }

  std::vector<ChangedBlock> ReadAll(int64_t entries_max) {
    std::vector<ChangedBlock> all;
    std::string start;
    do {
      const auto page = incremental::ParsePage(
          Get(absl::StrCat("/ns/a?maxEntries=", entries_max, "&startOffset=", start)).body);
      EXPECT_THAT(page, IsOk());
      if (!page.ok()) {
        break;
      }
      all.insert(all.end(), page->blocks.begin(), page->blocks.end());
      start = page->next_offset;
    } while (!start.empty());
    return all;
  }

  support::TestAuthority authority_;
  FakeReviews api_;
  FakeDriver driver_;
  PairTable pairs_;
  AccessReviewer access_{
      api_, "diffsnap", {.reviews_per_second = 0, .unknown_tokens_per_second = 0}};
  PageService pages_{pairs_, driver_, CursorCodec(Secret(std::string(32, 'k')))};
  RestServer rest_{pairs_, access_, pages_};
  std::unique_ptr<net::HttpServer> http_;
  std::unique_ptr<net::HttpClient> client_;
};

TEST_F(RestServerTest, PagesMakeTheWholeList) {
  EXPECT_EQ(ReadAll(137), driver_.blocks);
  const net::HttpResponse response = Get("/ns/a");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("cache-control"), "no-store");
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
}

TEST_F(RestServerTest, TheMoversSourceReadsTheWholeList) {
  net::HttpClientOptions http;
  http.tls.ca_pem = authority_.ca_pem();
  incremental::DifferentialSource source(
      {.url = *net::ParseUrl(absl::StrCat("https://127.0.0.1:", http_->port(), "/ns/a")),
       .http = http,
       .token = [](const CallContext&, bool) -> absl::StatusOr<Secret> { return Secret("good"); },
       .entries_max = 99});
  std::size_t count = 0;
  EXPECT_THAT(source.ListExtents(CallContext().WithTimeout(absl::Seconds(60)), {},
                                 [&](const incremental::ListedExtent& listed) {
                                   const ChangedBlock& block = driver_.blocks.at(count++);
                                   EXPECT_EQ(listed.extent, block.extent);
                                   EXPECT_EQ(listed.kind, block.zero_out
                                                              ? incremental::ExtentKind::kZero
                                                              : incremental::ExtentKind::kData);
                                   return absl::OkStatus();
                                 }),
              IsOk());
  EXPECT_EQ(count, driver_.blocks.size());
}

TEST_F(RestServerTest, WhoMayNotReadGetsNothing) {
  const net::HttpResponse none = Get("/ns/a", {});
  ExpectError(none, DifferentialErrorCode::kUnauthenticated);
  EXPECT_EQ(none.headers.at("www-authenticate"), "Bearer");
  for (const char* wrong : {"Bearer guess", "Bearer ", "Basic good", "good", "Bearer good, good"}) {
    ExpectError(Get("/ns/a", {{"Authorization", wrong}}), DifferentialErrorCode::kUnauthenticated);
  }
  ExpectError(Get("/ns/a", {{"Authorization", "Bearer weak"}}),
              DifferentialErrorCode::kPermissionDenied);
  // Whether an object exists is not said either.
  ExpectError(Get("/ns/none", {{"Authorization", "Bearer weak"}}),
              DifferentialErrorCode::kPermissionDenied);
  ExpectError(Get("/other/a"), DifferentialErrorCode::kPermissionDenied);
  EXPECT_TRUE(driver_.requests().empty());
  EXPECT_EQ(Get("/ns/a", {{"Authorization", "bearer good"}}).status, 200);
}

TEST_F(RestServerTest, WithoutTheApiServerEveryTokenIsRefused) {
  api_.failure = absl::UnavailableError("connection refused");
  const net::HttpResponse response = Get("/ns/a");
  ExpectError(response, DifferentialErrorCode::kUnavailable);
  EXPECT_EQ(response.headers.at("retry-after"), "1");
  EXPECT_TRUE(driver_.requests().empty());
}

TEST_F(RestServerTest, MistakesAreNamed) {
  ExpectError(Get("/ns/b"), DifferentialErrorCode::kNotFound);
  ExpectError(Get("/ns"), DifferentialErrorCode::kNotFound);
  ExpectError(Get("/ns/a?page=2"), DifferentialErrorCode::kInvalidArgument);
  ExpectError(Get("/ns/a?startOffset=x"), DifferentialErrorCode::kInvalidOffset);
  ExpectError(Get("/ns/a", {{"Authorization", "Bearer good"}, {"Accept", "text/html, image/*"}}),
              DifferentialErrorCode::kNotAcceptable);
  EXPECT_EQ(
      Get("/ns/a", {{"Authorization", "Bearer good"}, {"Accept", "text/html, */*;q=0.1"}}).status,
      200);
  const net::HttpResponse put = Get("/ns/a", {{"Authorization", "Bearer good"}}, "PUT");
  ExpectError(put, DifferentialErrorCode::kMethodNotAllowed);
  EXPECT_EQ(put.headers.at("allow"), "GET");
}

TEST_F(RestServerTest, NoPageHasMoreThanTheServerIsSetTo) {
  RestServer small(pairs_, access_, pages_, {.entries_max = 7});
  for (const char* target : {"/ns/a", "/ns/a?maxEntries=1000"}) {
    const net::HttpResponse response =
        small.Handle(CallContext(), {"GET", target, {{"authorization", "Bearer good"}}, ""});
    EXPECT_EQ(incremental::ParsePage(response.body)->blocks.size(), 7U);
  }
}

TEST_F(RestServerTest, AHundredClientsReadTheWholeList) {
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 100; ++i) {
      threads.emplace_back([&] { right += ReadAll(400) == driver_.blocks ? 1 : 0; });
    }
  }
  EXPECT_EQ(right, 100);
}

TEST_F(RestServerTest, HealthIsForEverybody) {
  EXPECT_EQ(Get("/healthz", {}).body, "ok\n");
  EXPECT_EQ(Get("/readyz", {}).status, 200);
  const PairTable unsynced;
  RestServer starting(unsynced, access_, pages_);
  EXPECT_EQ(starting.Handle(CallContext(), {"GET", "/readyz", {}, ""}).status, 503);
  EXPECT_EQ(starting.Handle(CallContext(), {"GET", "/healthz", {}, ""}).status, 200);
}

TEST_F(RestServerTest, HealthFailsForLoopsAndAnswersThatStandStill) {
  support::FakeClock clock;
  CallContext ctx;
  ctx.clock = &clock;
  k8s::LoopAge lease = {.name = "the lease"};
  RestServer rest(pairs_, access_, pages_, {.loops = [&] { return std::vector{lease}; }});
  const auto health = [&] { return rest.Handle(ctx, {"GET", "/healthz", {}, ""}); };
  EXPECT_EQ(health().status, 200);
  lease.age = absl::Minutes(11);
  EXPECT_EQ(health().status, 503);
  EXPECT_EQ(health().body, "the lease has stood still for 11m\n");
  lease.age = absl::ZeroDuration();
  driver_.on_page = [&](const CallContext&) {
    EXPECT_EQ(health().status, 200);
    clock.Advance(absl::Minutes(11));
    EXPECT_EQ(health().body, "the answer to a request for a page has stood still for 11m\n");
  };
  EXPECT_EQ(rest.Handle(ctx, {"GET", "/ns/a", {{"authorization", "Bearer good"}}, ""}).status, 200);
  EXPECT_EQ(health().status, 200);
}

TEST_F(RestServerTest, AnswersAreCounted) {
  EXPECT_EQ(Get("/ns/a?maxEntries=10").status, 200);
  EXPECT_EQ(Get("/ns/a?maxEntries=5").status, 200);
  EXPECT_EQ(Get("/ns/a", {}).status, 401);
  const std::string metrics = Get("/metrics", {}).body;
  EXPECT_THAT(metrics, HasSubstr("csi_delta_diffsnap_requests_total{code=\"OK\"} 2\n"));
  EXPECT_THAT(metrics,
              HasSubstr("csi_delta_diffsnap_requests_total{code=\"Unauthenticated\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("csi_delta_diffsnap_blocks_total 15\n"));
  EXPECT_THAT(metrics, HasSubstr("csi_delta_diffsnap_request_seconds_count 3\n"));
  EXPECT_THAT(metrics, HasSubstr("csi_delta_diffsnap_requests_in_flight 0\n"));
}

TEST_F(RestServerTest, TheDocumentDescribesWhatIsServed) {
  const auto document = ParseJsonObject(Get("/openapi.json", {}).body);
  ASSERT_THAT(document, IsOk());
  EXPECT_NE(FindJson(*document, {"paths", "/{namespace}/{name}", "get"}), nullptr);
  const Json* codes =
      FindJson(*document, {"components", "schemas", "Error", "properties", "code", "enum"});
  ASSERT_NE(codes, nullptr);
  std::vector<std::string> expected;
  for (int i = 0; i <= static_cast<int>(DifferentialErrorCode::kDeadlineExceeded); ++i) {
    expected.emplace_back(ErrorName(static_cast<DifferentialErrorCode>(i)));
  }
  EXPECT_EQ(codes->get<std::vector<std::string>>(), expected);
}

}  // namespace
}  // namespace csidelta::diffsnap::rest_server_test
