#pragma once

#include <ostream>
#include <string>
#include <utility>

namespace csidelta {

// A text that prints as "***", so that no log line and no message holds it by accident.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}

  // For the one place that needs it; never for messages.
  const std::string& Reveal() const { return text_; }
  bool empty() const { return text_.empty(); }

  bool operator==(const Secret&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Secret&) { return out << "***"; }

 private:
  std::string text_;
};

}  // namespace csidelta
