// The data mover's controller as a process, in a cluster whose Velero keeps very many DataUploads.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "objects/cluster.h"
#include "objects/protected_volume.h"
#include "objects/volume_task.h"
#include "tests/support/api_test_server.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/finished_upload.h"
#include "tests/support/kind_names.h"
#include "tests/support/list_page.h"
#include "tests/support/mover_kinds.h"
#include "tests/support/paths.h"
#include "tests/support/sanitized.h"
#include "tests/support/scratch_folder.h"

namespace csidelta::cli::controller_memory_test {
namespace {

using support::ServedConnection;
using support::ServedRequest;

// 500 volumes each night, kept for thirty days; fewer where memory is not asserted and each byte
// takes its time.
constexpr int kUploads = support::kSanitizer == nullptr ? 15'000 : 1'000;
constexpr int kBackups = 30;
constexpr int64_t kPeakBytesMax = int64_t{32} << 20;  // Of the 64 MiB that the chart allows.

class ControllerMemoryTest : public testing::Test {
 protected:
  ControllerMemoryTest()
      : server_(api_,
                {DataUploadType(),
                 DataDownloadType(),
                 DataDeletionType(),
                 objects::ProtectedVolume::Type(),
                 BackupType(),
                 LeaseType(),
                 PodType(),
                 ConfigMapType(),
                 SecretType(),
                 VolumeSnapshotContentType(),
                 objects::VolumeTask::Type(),
                 objects::CustomResourceDefinition::Type(),
                 {"", "v1", "namespaces", "Namespace", false}},
                {}, [this](const ServedRequest& request, ServedConnection& connection) {
                  return AnswerUploads(request, connection);
                }) {
    api_.Seed({"", "v1", "namespaces", "Namespace", false},
              {{"metadata", {{"name", "kube-system"}, {"uid", "cluster"}}}});
    support::SeedMoverKinds(api_);
    for (int i = 0; i < kBackups; ++i) {
      api_.Seed(BackupType(), {{"metadata",
                                {{"name", absl::StrCat("nightly-", i)},
                                 {"namespace", "velero"},
                                 {"uid", absl::StrCat("backup-uid-", i)}}},
                               {"status", {{"phase", "Completed"}}}});
    }
    std::ofstream(absl::StrCat(folder_.path(), "/kubeconfig")) << server_.Kubeconfig("{token: a}");
  }

  ~ControllerMemoryTest() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGTERM);
      int state = 0;
      const support::AwaitEnd end("the controller to end");
      EXPECT_EQ(::waitpid(pid_, &state, 0), pid_);
    }
  }

  // Lists of DataUploads, in pages; and watches of them, of which the first says
  // that it is too late to go on, so that all is listed again.
  bool AnswerUploads(const ServedRequest& request, ServedConnection& connection) {
    if (request.method != "GET" || request.target.find("/datauploads?") == std::string::npos) {
      return false;
    }
    if (request.target.find("watch=true") != std::string::npos) {
      connection.StartStream(200, {{"Content-Type", "application/json"}});
      if (++watches_ == 1) {
        connection.Chunk(
            R"({"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,)"
            R"("reason":"Expired","message":"too old"}})"
            "\n");
        connection.EndStream();
      } else {
        connection.AwaitPeerGone(connection.stop());
      }
      return true;
    }
    const support::ListPage asked = support::PageIn(request.target, kUploads);
    connection.Send(200, PageOf(asked.from, asked.end), {{"Content-Type", "application/json"}});
    return true;
  }

  // Made once: what costs time here would be waited for with the controller.
  const std::string& PageOf(int from, int end) {
    const std::scoped_lock lock(mutex_);
    std::string& page = pages_[{from, end}];
    if (!page.empty()) {
      return page;
    }
    page = absl::StrCat(R"({"kind":"DataUploadList","metadata":{"resourceVersion":"1")",
                        end < kUploads ? absl::StrCat(R"(,"continue":")", end, "\"") : "",
                        "},\"items\":[");
    for (int i = from; i < end; ++i) {
      absl::StrAppend(&page, i == from ? "" : ",", support::FinishedUpload(upload_, i, kBackups));
    }
    page += "]}";
    return page;
  }

  void Start() {
    pid_ = ::fork();
    if (pid_ != 0) {
      return;
    }
    const std::string error = absl::StrCat(folder_.path(), "/error");
    const std::string program = support::BuiltProgram("csi-delta");
    const std::string config = absl::StrCat(folder_.path(), "/kubeconfig");
    ::dup2(::open(error.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    ::execl(program.c_str(), program.c_str(), "datamover", "--kubeconfig", config.c_str(),
            "--image", "csi-delta:test", "--namespace", "mover", "--listen", "127.0.0.1:0",
            nullptr);
    ::_exit(127);
  }

  int64_t PeakBytes() const {
    std::ifstream status(absl::StrCat("/proc/", pid_, "/status"));
    for (std::string word; status >> word;) {
      if (int64_t kibibytes = 0; word == "VmHWM:" && status >> kibibytes) {
        return kibibytes << 10;
      }
    }
    return 0;
  }

  const support::ScratchFolder folder_;
  const std::string upload_ = support::FinishedUpload();
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::string> pages_;  // under mutex_; by from and end
  support::FakeApiClient api_;
  std::atomic<int> watches_ = 0;
  support::ApiTestServer server_;
  pid_t pid_ = 0;
};

TEST_F(ControllerMemoryTest, DoesNotFollowTheNumberOfDataUploadsThatAreOver) {
  EXPECT_NEAR(static_cast<double>(upload_.size()), 4600, 400);
  Start();
  // The one informer listed, was told to list again, did so, and watches.
  support::Await(
      "the controller to know all DataUploads again", [&] { return watches_ >= 2; },
      std::chrono::minutes(4));  // 270 MB of JSON, beside whatever else runs.
  const int64_t peak_bytes = PeakBytes();
  EXPECT_GT(peak_bytes, int64_t{4} << 20);
  RecordProperty("peak_mib", static_cast<int>(peak_bytes >> 20));
  if (support::AssertsUnsanitized("the controller stays below 32 MiB")) {
    EXPECT_LE(peak_bytes, kPeakBytesMax) << (peak_bytes >> 20) << " MiB";
  }
}

}  // namespace
}  // namespace csidelta::cli::controller_memory_test
