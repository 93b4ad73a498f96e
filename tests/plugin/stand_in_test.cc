// Where the program offers the names that Velero 1.12 and 1.13 look for: never where another plugin
// may have them, because a name that comes twice stops the server.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "PluginLister.grpc.pb.h"
#include "absl/strings/str_cat.h"
#include "backupitemaction/v2/BackupItemAction.grpc.pb.h"
#include "restoreitemaction/v2/RestoreItemAction.grpc.pb.h"
#include "tests/plugin/plugin_process.h"
#include "tests/support/paths.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::plugin::stand_in_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kBackup[] = "velero.io/csi-pvc-backupper";
constexpr char kRestore[] = "velero.io/csi-pvc-restorer";

using Words = std::vector<std::string>;
const Words kOld = {"--log-level", "info", "--features", "EnableCSI"};
const Words kOldWithoutCsi = {"--log-level", "info"};
const Words kNew = {"--features=EnableCSI", "--uploader-type=kopia"};

enum class Beside { kNothing, kAnotherPlugin, kVelerosCsiPlugin };

struct HostCase {
  const char* name;
  Words words;
  const char* user_agent;
  Beside beside;
  bool want;
  const char* declared = "";
};

// The program in a plugin folder, as a host of `host.user_agent` sees it.
class Host {
 public:
  explicit Host(const HostCase& host) {
    fs::create_symlink(support::BuiltProgram("velero-plugin-for-csi-delta"), folder_.path() + "/p");
    if (host.beside != Beside::kNothing) {
      const char* name = host.beside == Beside::kVelerosCsiPlugin ? kBackup : "velero.io/aws";
      std::ofstream(folder_.path() + "/other") << "\x7f"
                                                  "ELF"
                                               << name;
      fs::permissions(folder_.path() + "/other", fs::perms(0755));
    }
    PluginProcess::Options options{.executable = folder_.path() + "/p", .arguments = host.words};
    options.environment["CSI_DELTA_VELERO_VERSION"] = host.declared;
    options.environment["CSI_DELTA_KUBECONFIG"] = folder_.path() + "/none";
    process_.emplace(options);
    process_->ReadHandshake();
    grpc::ChannelArguments arguments;
    arguments.SetUserAgentPrefix(host.user_agent);
    channel_ = grpc::CreateCustomChannel(absl::StrCat("unix:", process_->SocketPath()),
                                         grpc::InsecureChannelCredentials(), arguments);
  }

  // Kind and name of what the program stands in for.
  std::vector<std::string> StandIns() {
    grpc::ClientContext context;
    generated::ListPluginsResponse listing;
    EXPECT_TRUE(generated::PluginLister::NewStub(channel_)
                    ->ListPlugins(&context, generated::Empty(), &listing)
                    .ok());
    std::vector<std::string> found;
    for (const auto& plugin : listing.plugins()) {
      if (plugin.name() == kBackup || plugin.name() == kRestore) {
        found.push_back(absl::StrCat(plugin.kind(), " ", plugin.name()));
      }
    }
    return found;
  }

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  const support::ScratchFolder folder_;
  std::optional<PluginProcess> process_;
  std::shared_ptr<grpc::Channel> channel_;
};

class PlaceholderTest : public testing::TestWithParam<HostCase> {};

TEST_P(PlaceholderTest, OfferedOnlyWhereMissedAndFree) {
  const std::vector<std::string> found = Host(GetParam()).StandIns();
  if (GetParam().want) {
    EXPECT_THAT(found, ElementsAre(absl::StrCat("BackupItemActionV2 ", kBackup),
                                   absl::StrCat("RestoreItemActionV2 ", kRestore)));
  } else {
    EXPECT_THAT(found, IsEmpty());
  }
}

const HostCase kVelero113 = {"Velero113", kOld, "grpc-go/1.58.3", Beside::kNothing, true};

const HostCase kHostCases[] = {
    kVelero113,
    {"Velero113AnotherPlugin", kOld, "grpc-go/1.58.3", Beside::kAnotherPlugin, true},
    {"Velero113CsiPlugin", kOld, "grpc-go/1.58.3", Beside::kVelerosCsiPlugin, false},
    {"Velero113WithoutCsi", kOldWithoutCsi, "grpc-go/1.58.3", Beside::kNothing, false},
    {"Velero113Declared", kOld, "", Beside::kAnotherPlugin, true, "1.13.1"},
    {"Velero113DeclaredCsiPlugin", kOld, "", Beside::kVelerosCsiPlugin, false, "1.13.1"},
    {"Velero112", kOld, "grpc-go/1.54.0", Beside::kNothing, true},
    {"Velero112CsiPlugin", kOld, "grpc-go/1.56.3", Beside::kVelerosCsiPlugin, false},
    {"Velero111", kOld, "grpc-go/1.45.0", Beside::kNothing, false},
    {"Velero114", kOld, "grpc-go/1.63.2", Beside::kNothing, false},
    {"Velero114StillDeclared113", kOld, "grpc-go/1.63.2", Beside::kNothing, false, "1.13.1"},
    {"Velero115", kNew, "grpc-go/1.63.2", Beside::kNothing, false},
    {"Velero118", kNew, "grpc-go/1.80.0", Beside::kNothing, false},
    {"Unknown", kOld, "", Beside::kNothing, false},
};
INSTANTIATE_TEST_SUITE_P(Table, PlaceholderTest, testing::ValuesIn(kHostCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(PlaceholderActionTest, NoItemIsAskedForAndAnyComesBackByteForByte) {
  Host host(kVelero113);
  const auto backup = v2::BackupItemAction::NewStub(host.channel());
  const auto restore = v2::RestoreItemAction::NewStub(host.channel());
  const std::string item = R"({ "kind":"PersistentVolumeClaim", "n": 12345678901234567 })";
  {
    grpc::ClientContext context;
    v2::BackupItemActionAppliesToRequest request;
    request.set_plugin(kBackup);
    v2::BackupItemActionAppliesToResponse response;
    ASSERT_TRUE(backup->AppliesTo(&context, request, &response).ok());
    EXPECT_EQ(response.resourceselector().selector(), "velero.io/csi-delta,!velero.io/csi-delta");
  }
  {
    grpc::ClientContext context;
    v2::RestoreItemActionAppliesToRequest request;
    request.set_plugin(kRestore);
    v2::RestoreItemActionAppliesToResponse response;
    ASSERT_TRUE(restore->AppliesTo(&context, request, &response).ok());
    EXPECT_EQ(response.resourceselector().selector(), "velero.io/csi-delta,!velero.io/csi-delta");
  }
  {
    grpc::ClientContext context;
    v2::ExecuteRequest request;
    request.set_plugin(kBackup);
    request.set_item(item);
    request.set_backup("{}");
    v2::ExecuteResponse response;
    ASSERT_TRUE(backup->Execute(&context, request, &response).ok());
    EXPECT_EQ(response.item(), item);
  }
  {
    grpc::ClientContext context;
    v2::RestoreItemActionExecuteRequest request;
    request.set_plugin(kRestore);
    request.set_item(item);
    request.set_itemfrombackup(item);
    request.set_restore("{}");
    v2::RestoreItemActionExecuteResponse response;
    ASSERT_TRUE(restore->Execute(&context, request, &response).ok());
    EXPECT_EQ(response.item(), item);
    EXPECT_FALSE(response.skiprestore());
  }
}

}  // namespace
}  // namespace csidelta::plugin::stand_in_test
