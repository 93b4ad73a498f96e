// Serves clusters in memory over HTTPS, as many as are asked for.
//
//   fake_cluster SOCKET
//
// Listens on a unix socket for requests, one JSON object a line, and answers each with one line.
// {"op": "new", "folder": F, ...} makes a cluster and answers {"cluster": N}; all others name their
// cluster: {"op": O, "cluster": N, ...}; "end" ends one. hosted_cluster.h says what they do. An
// answer with "error" tells why a request failed. Ends with its standard input.

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/host/hosted_cluster.h"

namespace csidelta::host {
namespace {

class Clusters {
 public:
  absl::StatusOr<Json> Answer(const Json& request) {
    const std::string op = GetString(request, {"op"});
    if (op == "new") {
      auto made = std::make_shared<HostedCluster>(GetString(request, {"folder"}), request);
      std::scoped_lock lock(mutex_);
      clusters_[++last_] = std::move(made);
      return Json{{"cluster", last_}};
    }
    const int64_t id = GetInt(request, {"cluster"});
    std::shared_ptr<HostedCluster> cluster;
    {
      std::scoped_lock lock(mutex_);
      const auto found = clusters_.find(id);
      if (found == clusters_.end()) {
        return absl::NotFoundError(absl::StrCat("no cluster ", id));
      }
      cluster = found->second;
      if (op == "end") {
        clusters_.erase(found);
      }
    }
    return op == "end" ? Json::object() : cluster->Answer(request);
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<HostedCluster>> clusters_;
  int64_t last_ = 0;
};

std::string AnswerLine(Clusters& clusters, const std::string& line) {
  const absl::StatusOr<Json> request = ParseJson(line);
  const absl::StatusOr<Json> answer =
      request.ok() ? clusters.Answer(*request) : absl::StatusOr<Json>(request.status());
  return DumpJson(answer.ok() ? *answer : Json{{"error", answer.status().ToString()}}) + "\n";
}

void Serve(Clusters& clusters, int fd) {
  std::string input;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count <= 0) {
      break;
    }
    input.append(buffer, static_cast<std::size_t>(count));
    for (std::size_t end; (end = input.find('\n')) != std::string::npos;) {
      const std::string answer = AnswerLine(clusters, input.substr(0, end));
      input.erase(0, end + 1);
      for (std::size_t sent = 0; sent < answer.size();) {
        const ssize_t wrote = write(fd, answer.data() + sent, answer.size() - sent);
        if (wrote <= 0) {
          break;
        }
        sent += static_cast<std::size_t>(wrote);
      }
    }
  }
  close(fd);
}

int Run(const std::string& path) {
  std::signal(SIGPIPE, SIG_IGN);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, 128) != 0) {
    std::cerr << "fake_cluster: cannot listen on " << path << ": " << std::strerror(errno) << "\n";
    return 1;
  }
  std::cout << "ready" << std::endl;
  // Clusters and their connections live as long as the process, which ends without joining a
  // thread.
  auto* clusters = new Clusters();
  auto* connections = new std::deque<std::thread>();
  pollfd waits[] = {{listener, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  while (poll(waits, 2, -1) > 0) {
    if (waits[1].revents != 0) {
      _exit(0);
    }
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) {
      connections->emplace_back([clusters, fd] { Serve(*clusters, fd); });
    }
  }
  return 1;
}

}  // namespace
}  // namespace csidelta::host

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fake_cluster SOCKET\n";
    return 2;
  }
  return csidelta::host::Run(argv[1]);
}
