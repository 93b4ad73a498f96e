#include "k8s/api_client.h"

#include <gtest/gtest.h>

namespace csidelta::k8s::webhook_answer_test {
namespace {

struct AnswerCase {
  const char* message;
  bool is_denied;
  bool is_away;
};

TEST(WebhookAnswerTest, IsToldByItsText) {
  const AnswerCase cases[] = {
      {"admission webhook \"v.io\" denied the request: it is needed", true, false},
      {"admission webhook \"v.io\" denied the request without explanation", true, false},
      {"delete pods ns/a: admission webhook \"v.io\" denied the request: no", true, false},
      {"Internal error occurred: failed calling webhook \"v.io\": no endpoints", false, true},
      {"admission webhook \"v.io\" denied the request: failed calling webhook \"w.io\"", true,
       false},
      {"admission webhook \"v.io\" is slow", false, false},
      {"admission webhook \"v.io", false, false},
      {"denied the request: by no webhook", false, false},
      {"failed calling webhook", false, false},
      {"", false, false},
  };
  for (const AnswerCase& test : cases) {
    EXPECT_EQ(IsDeniedByWebhook(test.message), test.is_denied) << test.message;
    EXPECT_EQ(IsWebhookAway(test.message), test.is_away) << test.message;
  }
}

}  // namespace
}  // namespace csidelta::k8s::webhook_answer_test
