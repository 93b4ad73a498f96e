#include "repository/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "repository/volume_layout.h"
#include "tests/support/encode_tree.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::tree_test {
namespace {

using support::IsOk;
using support::StatusIs;

constexpr char kTimes[] =
    "\"mtime\":\"1970-01-01T00:00:00Z\",\"atime\":\"1970-01-01T00:00:00Z\","
    "\"ctime\":\"1970-01-01T00:00:00Z\",\"uid\":0,\"gid\":0";
const std::string kZero = ZeroChunkId(512 << 10).Hex();

TEST(TreeTest, TheSmallTreeOfTheVector) {
  const std::vector<Node> nodes = {{.name = "data",
                                    .type = NodeType::kFile,
                                    .size_bytes = 1048576,
                                    .content = std::vector<BlobId>(2, ZeroChunkId(512 << 10))}};
  const std::string text = support::EncodeTree(nodes);
  EXPECT_EQ(text,
            absl::StrCat("{\"nodes\":[{\"name\":\"data\",\"type\":\"file\",\"mode\":384,", kTimes,
                         ",\"size\":1048576,\"content\":[\"", kZero, "\",\"", kZero, "\"]}]}\n"));
  EXPECT_EQ(Id::Of(text).Hex(), "77e640d9c6c831ae0deb4c275e8b197c432c40daff2c5cfa55017ce5da3a3bcf");
}

TEST(TreeTest, ADirectory) {
  const BlobId subtree = Id::Of("x");
  const std::vector<Node> nodes = {{.name = "00", .type = NodeType::kDir, .subtree = subtree}};
  EXPECT_EQ(support::EncodeTree(nodes),
            absl::StrCat("{\"nodes\":[{\"name\":\"00\",\"type\":\"dir\",\"mode\":2147484096,",
                         kTimes, ",\"content\":null,\"subtree\":\"", subtree.Hex(), "\"}]}\n"));
}

TEST(TreeTest, ComesBack) {
  const std::vector<Node> nodes = {
      {.name = "a", .type = NodeType::kDir, .subtree = Id::Of("a")},
      {.name = "b", .type = NodeType::kFile, .size_bytes = 0, .content = std::vector<BlobId>{}},
      {.name = "c",
       .type = NodeType::kFile,
       .size_bytes = 5,
       .content = std::vector<BlobId>{Id::Of("c")}}};
  const absl::StatusOr<std::vector<Node>> read = DecodeTree(support::EncodeTree(nodes));
  ASSERT_THAT(read, IsOk());
  ASSERT_EQ(read->size(), 3U);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ((*read)[i].name, nodes[i].name);
    EXPECT_EQ((*read)[i].type, nodes[i].type);
    EXPECT_EQ((*read)[i].size_bytes, nodes[i].size_bytes);
    EXPECT_EQ((*read)[i].content, nodes[i].content);
    EXPECT_EQ((*read)[i].subtree, nodes[i].subtree);
  }
}

TEST(TreeTest, TakesWhatResticWrites) {
  const absl::StatusOr<std::vector<Node>> read = DecodeTree(
      R"({"nodes":[{"name":"a\\n<b>","type":"symlink","mode":134218239,"linktarget":"to\u00e4",)"
      R"("user":"root","inode":7,"extended_attributes":[{"name":"x","value":"eA=="}]},)"
      R"({"name":"dev","type":"chardev","device":5}],"later":1})");
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ((*read)[0].name, "a\n<b>");
  EXPECT_EQ((*read)[0].type, NodeType::kSymlink);
  EXPECT_EQ((*read)[0].link_target, "to\xC3\xA4");
  EXPECT_FALSE((*read)[0].content.has_value());
  EXPECT_EQ((*read)[1].type, NodeType::kOther);
  EXPECT_THAT(DecodeTree("{\"nodes\":null}"), IsOk());
  EXPECT_THAT(DecodeTree("{\"nodes\":[]}\n"), IsOk());
}

TEST(TreeTest, RefusesWhatIsMalformed) {
  const auto node = [](const std::string& members) {
    return "{\"nodes\":[{\"type\":\"file\"," + members + "}]}";
  };
  const std::string zeros(64, '0');
  for (const std::string& text : {std::string(),
                                  std::string("{"),
                                  std::string("[]"),
                                  std::string("{\"nodes\":{}}"),
                                  std::string("{\"nodes\":[]}}"),
                                  node("\"name\":\"\""),
                                  node("\"name\":\"a/b\""),
                                  node("\"name\":\"..\""),
                                  node("\"name\":\".\""),
                                  node("\"name\":\"a\\u0000\""),
                                  node("\"name\":\"a\\\\x00\""),
                                  node("\"name\":\"\\\\q\""),
                                  node("\"size\":1"),
                                  node("\"name\":\"a\",\"size\":-1"),
                                  node("\"name\":\"a\",\"size\":18446744073709551616"),
                                  node("\"name\":\"a\",\"content\":[\"12\"]"),
                                  node("\"name\":\"a\",\"content\":[null]"),
                                  node("\"name\":\"a\",\"content\":[\"" + zeros + "\"]"),
                                  node("\"name\":\"a\",\"subtree\":\"" + zeros + "\""),
                                  node("\"name\":\"a\",\"content\":5"),
                                  std::string("{\"nodes\":[{\"name\":\"b\"},{\"name\":\"a\"}]}"),
                                  std::string("{\"nodes\":[{\"name\":\"a\"},{\"name\":\"a\"}]}")}) {
    EXPECT_THAT(DecodeTree(text), StatusIs(absl::StatusCode::kDataLoss)) << text;
  }
}

TEST(NodeNameTest, IsUnquotedAsGoQuotes) {
  std::string name;
  EXPECT_TRUE(UnquoteName(R"(a\"\\\n\x07\u00e4\U0001f600)", name));
  EXPECT_EQ(name, "a\"\\\n\x07\xC3\xA4\xF0\x9F\x98\x80");
  EXPECT_TRUE(UnquoteName(R"(\xff)", name));
  EXPECT_EQ(name, "\xFF");
  for (const char* text : {"\\", "\\q", "\\x1", "\\xzz", "\\u12", "\\ud800", "\\U00110000"}) {
    EXPECT_FALSE(UnquoteName(text, name)) << text;
  }
}

}  // namespace
}  // namespace csidelta::repository::tree_test
