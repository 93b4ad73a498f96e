#include "base/random.h"

#include <openssl/rand.h>

#include <random>

#include "base/check.h"
#include "base/mutex.h"

namespace csidelta {
namespace {

class RealRandom : public Random {
 public:
  uint64_t Below(uint64_t bound) override {
    const MutexLock lock(mutex_);
    return std::uniform_int_distribution<uint64_t>(0, bound - 1)(engine_);
  }

 private:
  Mutex mutex_;
  std::mt19937_64 engine_ ABSL_GUARDED_BY(mutex_){std::random_device{}()};
};

class RealSecureRandom : public SecureRandom {
 public:
  void Fill(absl::Span<uint8_t> bytes) override {
    CSIDELTA_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
  }
};

}  // namespace

Random& Random::Real() {
  static RealRandom random;
  return random;
}

SecureRandom& SecureRandom::Real() {
  static RealSecureRandom random;
  return random;
}

}  // namespace csidelta
