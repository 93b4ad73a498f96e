#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace csidelta::bench {

// A cgroup that limits the memory of what is put into it: of version 1 or 2, as the machine has it.
// It is removed with this object, which whatever was in it does not outlive.
class MemoryGroup {
 public:
  // PERMISSION_DENIED where none may be made, such as for a plain user.
  static absl::StatusOr<std::unique_ptr<MemoryGroup>> Make(int64_t limit_bytes);
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  // The file into which a process writes its id to be in it.
  std::string processes_path() const { return folder_ + "/cgroup.procs"; }

 private:
  explicit MemoryGroup(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
};

struct ControllerOptions {
  std::string program;           // a csi-delta
  std::string kubeconfig;        // its text
  std::string clock;             // kFastClockVariable; "" for none
  int64_t memory_bytes_max = 0;  // 0: no limit
};

// The data mover's controller as a process of its own: `csi-delta datamover`. Its log goes into a
// folder that lasts as long as this object.
class ControllerProcess {
 public:
  // The error says why it could not be started.
  static absl::StatusOr<std::unique_ptr<ControllerProcess>> Start(const ControllerOptions& options);
  // Ends it, by SIGTERM, and after a while by SIGKILL.
  ~ControllerProcess();
  ControllerProcess(const ControllerProcess&) = delete;
  ControllerProcess& operator=(const ControllerProcess&) = delete;

  std::string kubeconfig_path() const { return folder_ + "/kubeconfig"; }
  bool has_memory_limit() const { return group_ != nullptr; }
  // How it ended, if it did: "exit code 1: the last line of its log".
  std::optional<std::string> Ended();

  // As /proc says; 0 when it is gone.
  int64_t ResidentBytes() const { return StatusBytes("VmRSS:"); }
  int64_t PeakResidentBytes() const { return StatusBytes("VmHWM:"); }
  // The peak is counted again.
  void ForgetPeak() const;
  // What its processor did, in user and kernel mode.
  absl::Duration ProcessorTime() const;
  // Warnings and errors of its log, and the first few of them.
  std::pair<int, std::string> Complaints() const;

 private:
  ControllerProcess(std::string folder, std::unique_ptr<MemoryGroup> group)
      : folder_(std::move(folder)), group_(std::move(group)) {}

  std::string LogPath() const { return folder_ + "/log"; }
  int64_t StatusBytes(const std::string& name) const;
  std::string LastLine() const;

  const std::string folder_;
  std::unique_ptr<MemoryGroup> group_;
  pid_t pid_ = 0;
  std::optional<std::string> ended_;
};

}  // namespace csidelta::bench
