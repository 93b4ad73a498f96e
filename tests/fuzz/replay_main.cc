// Runs one fuzz target over the files of its corpus and over no bytes at all: what libFuzzer once
// found stays found, with any compiler. Usage: <target>_replay CORPUS_DIRECTORY

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes);

namespace {

void Replay(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS_DIRECTORY\n", argv[0]);
    return 2;
  }
  Replay("");
  int inputs = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1], error)) {
    std::printf("%s\n", entry.path().filename().c_str());
    std::fflush(stdout);  // The last name printed is the one that crashed.
    std::ifstream file(entry.path(), std::ios::binary);
    Replay(std::string(std::istreambuf_iterator<char>(file), {}));
    ++inputs;
  }
  std::printf("%d inputs replayed\n", inputs);
  return error || inputs == 0 ? 1 : 0;
}
