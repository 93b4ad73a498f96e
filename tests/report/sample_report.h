#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "report/report.h"

namespace csidelta::report {

inline constexpr int64_t kGiB = int64_t{1} << 30;

// 30 November 2026, 08:00 UTC: a Monday.
inline absl::Time SampleNow() { return absl::FromUnixSeconds(1'796'025'600); }

inline BackupEntry GoodBackup(absl::Time at, const std::string& mode = "incremental") {
  return {.at = at,
          .backup = absl::StrCat("nightly-", absl::FormatTime("%Y%m%d%H%M%S", at, {})),
          .snapshot = "8ab6fc6f",
          .base = mode == "full" ? "" : "1c44d09e",
          .mode = mode,
          .size_bytes = 100 * kGiB,
          .changed_bytes = kGiB,
          .read_bytes = kGiB,
          .audit_bytes = kGiB / 4,
          .stored_bytes = kGiB / 2};
}

// A volume with a good backup each night, the first one full.
inline VolumeEntry SampleVolume(const std::string& name, int days) {
  VolumeEntry volume = {.name = name, .location = "velero/default", .schedules = {"0 2 * * *"}};
  for (int day = 0; day < days; ++day) {
    const absl::Time at = SampleNow() - absl::Hours(6 + 24 * (days - 1 - day));
    volume.backups.push_back(GoodBackup(at, day == 0 ? "full" : "incremental"));
    volume.backups.back().stored_bytes = kGiB / 7 * (1 + day * 37 % 11);
    volume.backups.back().read_bytes = kGiB / 5 * (1 + day * 53 % 13);
  }
  return volume;
}

inline Report SampleReport(int volumes, int days) {
  Report report = {.made_at = SampleNow(),
                   .since = SampleNow() - absl::Hours(24 * days),
                   .subject = "the cluster prod"};
  for (int i = 0; i < volumes; ++i) {
    report.volumes.push_back(SampleVolume(absl::StrCat("shop/volume-", 10'000 + i), days));
  }
  return report;
}

inline void Fail(BackupEntry& backup, const std::string& message) {
  backup = {
      .at = backup.at, .state = BackupState::kFailed, .backup = backup.backup, .message = message};
}

}  // namespace csidelta::report
