#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace csidelta {

// One JSON object that is to be understood wholly: each key that it may have is read once, and what
// is left over is an error, as is a value of the wrong type. What is not set leaves `out` as it is.
// The first error of all sections is kept in `status`: INVALID_ARGUMENT, which names the key by its
// path. Borrows what it is made from. Not thread-safe.
class JsonSection {
 public:
  // `path`: of the object; "" for one that is the whole document.
  JsonSection(const Json& object, std::string path, absl::Status& status);

  // The value of a key; null when it is not set.
  const Json* Take(const std::string& key);

  std::string PathOf(const std::string& key) const {
    return path_.empty() ? key : absl::StrCat(path_, ".", key);
  }

  // "PATH: VALUE is not FORM".
  void Fail(const std::string& path, const Json& value, absl::string_view form);
  // What is wrong with the object as a whole.
  void Refuse(absl::string_view what);
  // "PATH is missing", unless it is there.
  void Require(const std::string& key, bool is_there);

  void Text(const std::string& key, std::string& out);
  template <typename Legal>
  void Text(const std::string& key, std::string& out, absl::string_view form, Legal legal) {
    if (const Json* value = Take(key); value != nullptr) {
      if (!value->is_string() || !legal(value->get<std::string>())) {
        return Fail(PathOf(key), *value, form);
      }
      out = value->get<std::string>();
    }
  }

  void Flag(const std::string& key, bool& out);
  void Number(const std::string& key, int64_t min, int64_t max, int64_t& out);

  template <typename Legal>
  void TextList(const std::string& key, std::vector<std::string>& out, absl::string_view form,
                Legal legal);

  // A list of at most `size_max` texts: `read` gets each, and says whether it is legal.
  template <typename Read>
  void EachText(const std::string& key, std::size_t size_max, absl::string_view form, Read read);

  // A list of numbers from `min` to `max`.
  void NumberList(const std::string& key, int64_t min, int64_t max, std::vector<int64_t>& out,
                  absl::string_view form);

  // Maps of strings: labels, annotations, selectors.
  template <typename Legal>
  void Texts(const std::string& key, std::map<std::string, std::string>& out,
             absl::string_view form, Legal legal);

  // Objects by name: `read` gets each with its section.
  template <typename Read>
  void Sections(const std::string& key, Read read) {
    const Json* value = Take(key);
    if (value == nullptr) {
      return;
    }
    if (!value->is_object()) {
      return Fail(PathOf(key), *value, "an object");
    }
    for (const auto& [name, object] : value->items()) {
      JsonSection section(object, absl::StrCat(PathOf(key), ".", name), status_);
      read(name, section);
      section.Close();
    }
  }

  // A list of `size_min` to `size_max` objects: `read` gets the section of each.
  template <typename Read>
  void SectionList(const std::string& key, std::size_t size_min, std::size_t size_max, Read read) {
    const Json* value = Take(key);
    if (value == nullptr) {
      return;
    }
    if (!value->is_array() || value->size() < size_min || value->size() > size_max) {
      return Fail(PathOf(key), *value,
                  absl::StrCat("a list of ", size_min, " to ", size_max, " objects"));
    }
    for (std::size_t i = 0; i < value->size(); ++i) {
      JsonSection section((*value)[i], absl::StrCat(PathOf(key), "[", i, "]"), status_);
      read(section);
      section.Close();
    }
  }

  // A section that may be missing.
  template <typename Read>
  void Inner(const std::string& key, Read read) {
    if (const Json* value = Take(key); value != nullptr) {
      JsonSection section(*value, PathOf(key), status_);
      read(section);
      section.Close();
    }
  }

  // Refuses what was not taken.
  void Close();

 private:
  const Json& object_;
  const std::string path_;
  absl::Status& status_;
  std::set<std::string> known_;
};

template <typename Legal>
void JsonSection::TextList(const std::string& key, std::vector<std::string>& out,
                           absl::string_view form, Legal legal) {
  const Json* value = Take(key);
  if (value == nullptr) {
    return;
  }
  std::vector<std::string> texts = GetStringList(*value, {});
  if (!value->is_array() || texts.size() != value->size() || !absl::c_all_of(texts, legal)) {
    return Fail(PathOf(key), *value, form);
  }
  out = std::move(texts);
}

template <typename Read>
void JsonSection::EachText(const std::string& key, std::size_t size_max, absl::string_view form,
                           Read read) {
  const Json* value = Take(key);
  if (value == nullptr) {
    return;
  }
  if (!value->is_array() || value->size() > size_max) {
    return Fail(PathOf(key), *value, form);
  }
  for (const Json& one : *value) {
    const std::string* text = one.get_ptr<const std::string*>();
    if (text == nullptr || !read(*text)) {
      return Fail(PathOf(key), one, form);
    }
  }
}

template <typename Legal>
void JsonSection::Texts(const std::string& key, std::map<std::string, std::string>& out,
                        absl::string_view form, Legal legal) {
  const Json* value = Take(key);
  if (value == nullptr) {
    return;
  }
  if (!value->is_object()) {
    return Fail(PathOf(key), *value, "an object of texts");
  }
  for (auto item = value->begin(); item != value->end(); ++item) {
    const std::string* text = item->get_ptr<const std::string*>();
    if (text == nullptr || !legal(item.key(), *text)) {
      return Fail(absl::StrCat(PathOf(key), ".", item.key()), *item, form);
    }
    out[item.key()] = *text;
  }
}

// Reads the one JSON object that `text` is: `read` gets its section. INVALID_ARGUMENT as above, and
// as ParseJsonObject().
template <typename Read>
absl::Status ReadJsonText(absl::string_view text, int64_t values_max, Read read) {
  absl::StatusOr<Json> object = ParseJsonObject(text, values_max);
  if (!object.ok()) {
    return object.status();
  }
  absl::Status status;
  JsonSection section(*object, "", status);
  read(section);
  section.Close();
  return status;
}

}  // namespace csidelta
