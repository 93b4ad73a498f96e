#include "plugin/call_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <string>

#include "Shared.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/support/await.h"

namespace csidelta::plugin::call_tracker_test {
namespace {

using std::chrono_literals::operator""s;

using testing::HasSubstr;

const CallName kCall{"example.io/a", "Test.Call"};

TEST(CallTrackerTest, PassesTheResultOn) {
  CallTracker calls;
  EXPECT_TRUE(calls.Run(kCall, [](const CallContext&) { return absl::OkStatus(); }).ok());
  const grpc::Status failed =
      calls.Run(kCall, [](const CallContext&) { return absl::NotFoundError("gone"); });
  EXPECT_EQ(failed.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(failed.error_message(), "gone");
}

TEST(CallTrackerTest, ExceptionsBecomeAborted) {
  CallTracker calls;
  const grpc::Status known = calls.Run(
      kCall, [](const CallContext&) -> absl::Status { throw std::runtime_error("bad luck"); });
  EXPECT_EQ(known.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(known.error_message(), "plugin panicked: bad luck");
  const grpc::Status unknown =
      calls.Run(kCall, [](const CallContext&) -> absl::Status { throw 7; });
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::ABORTED);
}

TEST(CallTrackerTest, ErrorsCarryAStackThatNamesTheCall) {
  const grpc::Status status = ToGrpcStatus(absl::UnknownError("boom"), kCall);
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), static_cast<int>(status.error_code()));
  EXPECT_EQ(details.message(), status.error_message());
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/generated.Stack");
  generated::Stack stack;
  ASSERT_TRUE(details.details(0).UnpackTo(&stack));
  ASSERT_EQ(stack.frames_size(), 1);
  EXPECT_EQ(stack.frames(0).function(), "example.io/a Test.Call");
  EXPECT_THAT(stack.frames(0).file(), HasSubstr("src/plugin/"));
}

TEST(CallTrackerTest, LongAndBrokenTextIsMadeFitForTheWire) {
  const grpc::Status status =
      ToGrpcStatus(absl::UnknownError("\xff" + std::string(1 << 20, 'x')), kCall);
  EXPECT_LT(status.error_message().size(), 4096);
  EXPECT_LT(status.error_details().size(), 8192);
}

TEST(CallTrackerTest, StopEndsRunningCallsAndRefusesNewOnes) {
  CallTracker calls;
  std::promise<void> started;
  auto running = std::async(std::launch::async, [&] {
    return calls.Run(kCall, [&](const CallContext& ctx) {
      started.set_value();
      ctx.clock->SleepUntil(absl::InfiniteFuture(), ctx.stop);
      return ctx.Check();
    });
  });
  const std::future<void> has_started = started.get_future();
  support::Await("the call to begin",
                 [&] { return has_started.wait_for(0s) == std::future_status::ready; });
  EXPECT_FALSE(calls.WaitUntilIdle(absl::ZeroDuration()));
  calls.RequestStop();
  calls.RequestStop();
  EXPECT_TRUE(calls.WaitUntilIdle(absl::FromChrono(support::kAwaitMax)));
  EXPECT_EQ(running.get().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(calls.Run(kCall, [](const CallContext&) { return absl::OkStatus(); }).error_code(),
            grpc::StatusCode::CANCELLED);
}

TEST(CallTrackerTest, IsIdleAfterAnException) {
  CallTracker calls;
  calls.Run(kCall, [](const CallContext&) -> absl::Status { throw 7; });
  EXPECT_TRUE(calls.WaitUntilIdle(absl::ZeroDuration()));
}

TEST(CallTrackerTest, CallsRunSideBySide) {
  constexpr int kCalls = 16;
  CallTracker calls;
  std::atomic<int> inside = 0;
  std::promise<void> all_inside;
  const std::shared_future<void> gate = all_inside.get_future().share();
  std::vector<std::future<grpc::Status>> results;
  for (int i = 0; i < kCalls; ++i) {
    results.push_back(std::async(std::launch::async, [&] {
      return calls.Run(kCall, [&](const CallContext&) {
        if (++inside == kCalls) {
          all_inside.set_value();
        }
        support::Await("all calls to be inside at once",
                       [&] { return gate.wait_for(0s) == std::future_status::ready; });
        return absl::OkStatus();
      });
    }));
  }
  for (auto& result : results) {
    EXPECT_TRUE(result.get().ok());
  }
}

}  // namespace
}  // namespace csidelta::plugin::call_tracker_test
