#include "base/random.h"

#include <mutex>
#include <random>

namespace csidelta {
namespace {

class RealRandom : public Random {
 public:
  uint64_t Below(uint64_t bound) override {
    std::scoped_lock lock(mutex_);
    return std::uniform_int_distribution<uint64_t>(0, bound - 1)(engine_);
  }

 private:
  std::mutex mutex_;
  std::mt19937_64 engine_{std::random_device{}()};
};

}  // namespace

Random& Random::Real() {
  static RealRandom random;
  return random;
}

}  // namespace csidelta
