// What the doctor costs with very many DataUploads.

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "doctor/checkup.h"
#include "gtest/gtest.h"
#include "objects/backup_storage_location.h"
#include "objects/cluster.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/finished_upload.h"
#include "tests/support/memory_growth.h"
#include "tests/support/sanitized.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::doctor::scale_test {
namespace {

// Lists so many DataUploads in pages, without holding any; the last one failed.
class ManyUploads : public support::FakeApiClient {
 public:
  ManyUploads(const Clock& clock, int count) : FakeApiClient(clock), count_(count) {}

  absl::StatusOr<std::string> ListPages(
      const CallContext& ctx, const k8s::ResourceType& type, absl::string_view namespace_name,
      const k8s::ListOptions& options,
      absl::FunctionRef<void(std::vector<Json>& page, bool is_first)> sink) override {
    if (type.plural != "datauploads") {
      return FakeApiClient::ListPages(ctx, type, namespace_name, options, sink);
    }
    EXPECT_FALSE(options.may_be_old) << "an API server ignores the limit then";
    EXPECT_GT(options.page_items_max, 0);
    for (int i = 0; i < count_;) {
      const bool is_first = i == 0;
      std::vector<Json> page;
      for (; i < count_ && static_cast<int>(page.size()) < options.page_items_max; ++i) {
        Json upload = *ParseJsonObject(support::FinishedUpload(form_, i, 30));
        SetJson(upload, {"apiVersion"}, "velero.io/v2alpha1");
        SetJson(upload, {"kind"}, "DataUpload");
        if (i + 1 == count_) {
          SetJson(upload, {"status", "phase"}, "Failed");
        }
        page.push_back(std::move(upload));
      }
      sink(page, is_first);
    }
    return std::string("1");
  }

 private:
  const std::string form_ = support::FinishedUpload();
  const int count_;
};

// 15,000 with CSI_DELTA_SWEEP=all, else a fifth, and of the memory too.
TEST(DoctorScaleTest, VeryManyDataUploadsAreReadInPagesAndHeldReduced) {
  const support::SweepSample sample;
  const int count = sample.is_everything() ? 15'000 : 3'000;
  support::FakeClock clock;
  clock.SetAutoAdvance(true);
  ManyUploads api(clock, count);
  for (const char* name : {"kube-system", "csi-delta"}) {
    api.Seed(objects::Namespace::Type(), support::MakeObject("v1", "Namespace", "", name));
  }
  api.Seed(objects::BackupStorageLocation::Type(),
           support::MakeObject("velero.io/v1", "BackupStorageLocation", "velero", "default"));
  CheckupOptions options;
  options.open_store = [](const datamover::RepositoryAccess&)
      -> absl::StatusOr<std::unique_ptr<storage::OpenedStore>> {
    return absl::UnavailableError("no bucket");
  };
  CallContext ctx;
  ctx.clock = &clock;
  std::vector<Finding> findings;
  const support::MemoryGrowth growth;
  const std::clock_t began = std::clock();
  RunCheckup(ctx.WithTimeout(absl::Seconds(55)), api, options, Random::Real(),
             [&](const Finding& finding) { findings.push_back(finding); });
  EXPECT_EQ(std::count_if(findings.begin(), findings.end(),
                          [](const Finding& finding) {
                            return finding.check == "uploads-failed" &&
                                   finding.severity == Severity::kWarning;
                          }),
            1);
  const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  std::cout << count << " DataUploads: " << seconds << " s of a CPU, making them included, and "
            << (growth.bytes() >> 20) << " MiB\n";
  if (support::AssertsUnsanitized("memory and time of the doctor")) {
    // Of 15,000 not 128 MiB, and not 20 s.
    EXPECT_LE(growth.bytes(), (int64_t{24} << 20) + int64_t{7000} * count);
    EXPECT_LE(seconds, 20.0 * count / 15'000 + 1);
  }
}

}  // namespace
}  // namespace csidelta::doctor::scale_test
