#include "tests/fuzz/replay.h"
#include "tests/support/paths.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace csidelta::fuzz {
namespace {

class ReplayTest : public testing::Test {
 public:
  ReplayTest(const char* name, Target target) : name_(name), target_(target) {}

  void TestBody() override {
    Replay("");
    int inputs = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(support::SourcePath("tests/fuzz/corpus/") + name_)) {
      // The last name printed is the one that crashed.
      std::cout << entry.path().filename().string() << std::endl;
      std::ifstream file(entry.path(), std::ios::binary);
      Replay(std::string(std::istreambuf_iterator<char>(file), {}));
      ++inputs;
    }
    EXPECT_GT(inputs, 0) << "its corpus is empty";
  }

 private:
  void Replay(const std::string& input) {
    target_(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }

  const char* name_;
  Target target_;
};

}  // namespace

bool RegisterReplay(const char* name, Target target) {
  testing::RegisterTest("FuzzReplayTest", name, nullptr, nullptr, __FILE__, __LINE__,
                        [=]() -> testing::Test* { return new ReplayTest(name, target); });
  return true;
}

}  // namespace csidelta::fuzz
