#include "engine/mounts.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace csidelta::engine {
namespace {

constexpr char kMountInfo[] = "/proc/self/mountinfo";
// Fields of a line: id, parent, device, root, place, options, ..., "-", type, source, options of
// the file system.
constexpr std::size_t kDeviceField = 2;
constexpr std::size_t kMountPointField = 4;
constexpr std::size_t kFieldsMin = 6;

bool IsWritable(absl::string_view options) {
  const std::vector<absl::string_view> all = absl::StrSplit(options, ',');
  return absl::c_linear_search(all, "rw");
}

// Blanks and such are written in octal there.
std::string Plain(absl::string_view field) {
  std::string text;
  return absl::CUnescape(field, &text) ? text : std::string(field);
}

dev_t DeviceOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISBLK(info.st_mode) ? info.st_rdev : 0;
}

}  // namespace

std::string MountedForWriting(absl::string_view mountinfo, dev_t device,
                              const std::function<dev_t(const std::string& path)>& device_of) {
  const std::string number = absl::StrCat(major(device), ":", minor(device));
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    const auto dash = absl::c_find(fields, "-");
    if (fields.size() < kFieldsMin || fields.end() - dash < 4) {
      continue;
    }
    // A mount that is read-only may be one of several of a file system that is not.
    const bool is_here = fields[kDeviceField] == number || device_of(Plain(dash[2])) == device;
    if (is_here && IsWritable(dash[3])) {
      return Plain(fields[kMountPointField]);
    }
  }
  return "";
}

std::string MountedForWriting(const std::string& path) {
  const dev_t device = DeviceOf(path);
  if (device == 0) {
    return "";
  }
  std::ifstream file(kMountInfo);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return MountedForWriting(text, device, [](const std::string& source) {
    return source.empty() || source.front() != '/' ? dev_t{0} : DeviceOf(source);
  });
}

}  // namespace csidelta::engine
