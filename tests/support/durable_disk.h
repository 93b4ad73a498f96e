#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace csidelta::support {

// What a disk would hold if the power failed: the strictest one there is, on which nothing lasts
// but what was synced. Told of each fsync(), it notes the bytes of the file, or the names in the
// folder, as they are at that moment; a file that was never synced lasts as an empty one, if its
// folder was. Files are kept open, so that no inode number is used twice. Not thread-safe.
class DurableDisk {
 public:
  // What lies below a folder: paths with "/" between, and the files' bytes.
  using Tree = std::map<std::string, std::string>;

  // Begins with what is below `root` now, which is taken as safe.
  explicit DurableDisk(const std::string& root);

  void NoteSync(int fd);

  // What would be left after the first `syncs` calls of NoteSync(), of sync_count() in all.
  Tree After(std::size_t syncs) const;
  std::size_t sync_count() const { return states_.size() - 1; }

 private:
  struct Entry {
    ino_t inode = 0;
    bool is_folder = false;
  };
  using Folder = std::map<std::string, Entry>;
  struct State {
    std::map<ino_t, std::shared_ptr<const Folder>> folders;
    std::map<ino_t, std::shared_ptr<const std::string>> files;
  };

  void Take(State& state, const std::string& path);
  void Collect(const State& state, ino_t folder, const std::string& prefix, Tree& tree) const;

  ino_t root_ = 0;
  std::vector<State> states_;
  std::vector<UniqueFd> held_;
};

// Makes the files of a tree below an existing folder.
void WriteTree(const DurableDisk::Tree& tree, const std::string& root);

}  // namespace csidelta::support
