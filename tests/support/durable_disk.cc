#include "tests/support/durable_disk.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace csidelta::support {
namespace {

ino_t InodeOf(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

}  // namespace

DurableDisk::DurableDisk(const std::string& root) : root_(InodeOf(root)) {
  State state;
  Take(state, root);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    Take(state, entry.path().string());
  }
  states_.push_back(std::move(state));
}

void DurableDisk::NoteSync(int fd) {
  const std::string link = absl::StrCat("/proc/self/fd/", fd);
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(link, error).string();
  State state = states_.back();
  Take(state, path);
  states_.push_back(std::move(state));
}

void DurableDisk::Take(State& state, const std::string& path) {
  held_.emplace_back(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!held_.back().valid() || fstat(held_.back().get(), &info) != 0) {
    return;
  }
  if (!S_ISDIR(info.st_mode)) {
    std::ifstream file(path, std::ios::binary);
    state.files[info.st_ino] = std::make_shared<const std::string>(
        std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    return;
  }
  auto folder = std::make_shared<Folder>();
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    (*folder)[entry.path().filename().string()] = {.inode = InodeOf(entry.path().string()),
                                                   .is_folder = entry.is_directory()};
  }
  state.folders[info.st_ino] = std::move(folder);
}

DurableDisk::Tree DurableDisk::After(std::size_t syncs) const {
  Tree tree;
  Collect(states_[syncs], root_, "", tree);
  return tree;
}

void DurableDisk::Collect(const State& state, ino_t folder, const std::string& prefix,
                          Tree& tree) const {
  const auto found = state.folders.find(folder);
  if (found == state.folders.end()) {
    return;
  }
  for (const auto& [name, entry] : *found->second) {
    if (entry.is_folder) {
      Collect(state, entry.inode, absl::StrCat(prefix, name, "/"), tree);
      continue;
    }
    const auto bytes = state.files.find(entry.inode);
    tree[absl::StrCat(prefix, name)] = bytes == state.files.end() ? "" : *bytes->second;
  }
}

void WriteTree(const DurableDisk::Tree& tree, const std::string& root) {
  for (const auto& [path, bytes] : tree) {
    const std::filesystem::path whole = std::filesystem::path(root) / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole, std::ios::binary) << bytes;
  }
}

}  // namespace csidelta::support
