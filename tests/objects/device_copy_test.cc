#include "objects/device_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace csidelta::objects::device_copy_test {
namespace {

TEST(DeviceCopyTest, TheLastLineOfATypeCounts) {
  const std::string text =
      "{\"message_type\":\"status\",\"stage\":\"compare\",\"bytes_done\":1,\"total_bytes\":4}\n"
      "{\"message_type\":\"status\",\"stage\":\"write\",\"bytes_done\":3,\"total_bytes\":4}\n"
      "words of a library\n"
      "{\"message_type\":\"result\",\"written_bytes\":2,\"used_list\":true}\n\n";
  const std::optional<VolumeCopyProgress> progress = LastVolumeCopyProgress(text);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->stage, "write");
  EXPECT_EQ(progress->done_bytes, 3);
  EXPECT_EQ(progress->total_bytes, 4);
  const std::optional<VolumeCopyResult> result = LastVolumeCopyResult(text);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->written_bytes, 2);
  EXPECT_EQ(result->kept_bytes, 0);
  EXPECT_TRUE(result->used_list);
  EXPECT_FALSE(LastVolumeCopyError(text).has_value());
}

TEST(DeviceCopyTest, AnErrorHasItsExitCode) {
  const std::optional<VolumeCopyError> error = LastVolumeCopyError(
      "{\"message_type\":\"exit_error\",\"code\":22,\"message\":\"too small\"}");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->exit_code, 22);
  EXPECT_EQ(error->message, "too small");
}

TEST(DeviceCopyTest, NumbersAloneNeedNoType) {
  EXPECT_EQ(ParseVolumeCopyResult("{\"zero_bytes\":7}").zero_bytes, 7);
  EXPECT_EQ(ParseVolumeCopyResult("{\"zero_bytes\":").zero_bytes, 0);
}

TEST(DeviceCopyTest, WhatARestoreDidIsOneObject) {
  EXPECT_EQ(
      FormatVolumeCopyResult({.logical_bytes = 1,
                              .compared_bytes = 2,
                              .written_bytes = 3,
                              .zero_bytes = 4,
                              .kept_bytes = 5}),
      R"({"compared_bytes":2,"kept_bytes":5,"logical_bytes":1,"written_bytes":3,"zero_bytes":4})");
}

}  // namespace
}  // namespace csidelta::objects::device_copy_test
