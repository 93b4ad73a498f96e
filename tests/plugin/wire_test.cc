// The bytes on the wire, as the host's own code makes and takes them.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>

#include "PluginLister.pb.h"
#include "absl/strings/escaping.h"
#include "backupitemaction/v2/BackupItemAction.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc_stdio.pb.h"
#include "itemblockaction/v1/ItemBlockAction.pb.h"
#include "plugin/call_tracker.h"
#include "plugin/convert.h"
#include "restoreitemaction/v2/RestoreItemAction.pb.h"

namespace csidelta::plugin::wire_test {
namespace {

template <typename Message>
std::string Hex(const Message& message) {
  return absl::BytesToHexString(message.SerializeAsString());
}

TEST(WireTest, ListPluginsResponse) {
  generated::ListPluginsResponse message;
  auto* plugin = message.add_plugins();
  plugin->set_command("/plugins/p");
  plugin->set_kind("BackupItemActionV2");
  plugin->set_name("example.io/a");
  EXPECT_EQ(
      Hex(message),
      "0a2e0a0a2f706c7567696e732f7012124261636b75704974656d416374696f6e56321a0c6578616d706c652e69"
      "6f2f61");
}

TEST(WireTest, BackupExecuteRequest) {
  v2::ExecuteRequest message;
  message.set_plugin("example.io/a");
  message.set_item("{}");
  message.set_backup("{}");
  EXPECT_EQ(Hex(message), "0a0c6578616d706c652e696f2f6112027b7d1a027b7d");
}

TEST(WireTest, BackupExecuteResponse) {
  v2::ExecuteResponse message;
  message.set_item("{}");
  message.set_operationid("op-1");
  AppendTo({{"", "persistentvolumes", "", "pv1"}}, message.mutable_additionalitems());
  AppendTo({{"velero.io", "datauploads", "velero", "du1"}}, message.mutable_postoperationitems());
  EXPECT_EQ(
      Hex(message),
      "0a027b7d1218121170657273697374656e74766f6c756d657322037076311a046f702d3122250a0976656c65726f"
      "2e696f120b6461746175706c6f6164731a0676656c65726f2203647531");
}

TEST(WireTest, AppliesToResponse) {
  velero::ResourceSelector selector;
  selector.included_resources = {"persistentvolumeclaims"};
  selector.label_selector = "a=b";
  v2::BackupItemActionAppliesToResponse message;
  *message.mutable_resourceselector() = ToProto(selector);
  EXPECT_EQ(Hex(message), "0a1d1a1670657273697374656e74766f6c756d65636c61696d732a03613d62");
}

TEST(WireTest, ProgressResponse) {
  velero::OperationProgress progress;
  progress.completed = true;
  progress.error = "boom";
  progress.completed_units = 1;
  progress.total_units = 2;
  progress.units = "Bytes";
  progress.description = "d";
  progress.started = absl::FromUnixSeconds(1);
  progress.updated = absl::FromUnixSeconds(2) + absl::Nanoseconds(3);
  v2::BackupItemActionProgressResponse message;
  *message.mutable_progress() = ToProto(progress);
  EXPECT_EQ(Hex(message), "0a2008011204626f6f6d180120022a0542797465733201643a020801420408021003");
}

TEST(WireTest, RestoreExecuteResponse) {
  v2::RestoreItemActionExecuteResponse message;
  message.set_item("{}");
  message.set_skiprestore(true);
  message.set_operationid("op-2");
  message.set_waitforadditionalitems(true);
  message.mutable_additionalitemsreadytimeout()->set_seconds(60);
  EXPECT_EQ(Hex(message), "0a027b7d180122046f702d3228013202083c");
}

TEST(WireTest, RestoreItemsReadyRequest) {
  v2::RestoreItemActionItemsReadyRequest message;
  message.set_plugin("example.io/a");
  message.set_restore("{}");
  AppendTo({{"", "pods", "n", "p"}}, message.mutable_additionalitems());
  EXPECT_EQ(Hex(message), "0a0c6578616d706c652e696f2f6112027b7d1a0c1204706f64731a016e220170");
}

TEST(WireTest, StatusDetails) {
  google::rpc::Status message;
  message.set_code(2);
  message.set_message("boom");
  generated::Stack stack;
  auto* frame = stack.add_frames();
  frame->set_file("a.cc");
  frame->set_line(7);
  frame->set_function("f");
  message.add_details()->PackFrom(stack);
  EXPECT_EQ(
      Hex(message),
      "08021204626f6f6d1a340a23747970652e676f6f676c65617069732e636f6d2f67656e6572617465642e537461"
      "636b120d0a0b0a04612e636310071a0166");
}

TEST(WireTest, StdioData) {
  ::plugin::StdioData message;
  message.set_channel(::plugin::StdioData::STDERR);
  message.set_data("hi");
  EXPECT_EQ(Hex(message), "080212026869");
}

TEST(WireTest, FilesAndMethodsHaveTheHostsNames) {
  EXPECT_EQ(v2::ExecuteRequest::descriptor()->file()->name(),
            "backupitemaction/v2/BackupItemAction.proto");
  EXPECT_EQ(v2::RestoreItemActionExecuteRequest::descriptor()->file()->name(),
            "restoreitemaction/v2/RestoreItemAction.proto");
  EXPECT_EQ(v1::ItemBlockActionGetRelatedItemsRequest::descriptor()->full_name(),
            "v1.ItemBlockActionGetRelatedItemsRequest");
  EXPECT_EQ(generated::PluginIdentifier::descriptor()->file()->name(), "PluginLister.proto");
}

}  // namespace
}  // namespace csidelta::plugin::wire_test
