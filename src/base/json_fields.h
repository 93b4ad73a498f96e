#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/enum_names.h"
#include "base/human_text.h"
#include "base/json.h"
#include "base/rfc3339.h"

// A struct and its JSON, by one description that the writer and the reader both walk:
//
//   constexpr auto kBaseFields = [](auto& fields, auto& base) {
//     fields("volumeSnapshotContent", base.content);
//     fields("takenAt", base.taken_at, WholeSeconds());
//   };
//   const Json json = WriteFields(kBaseFields, base);
//   const auto read = ReadFields<VolumeBase>(kBaseFields, &json);
//
// A member is a text, a flag, a count, a time (RFC 3339), an optional of one, or, with what says so
// behind it, an enum (its EnumNames), a struct (its description) or a list. Durations are written,
// in whole seconds. Pure, never throws.
namespace csidelta {

struct WholeSeconds {};  // a time is cut to them
struct AsText {};        // of a number: its digits, as annotations have it
struct BytesMax {        // a longer text is cut, between two characters
  std::size_t bytes;
};
struct CountMax {  // of a list, before what says how an element is written: the first ones
  std::size_t count;
};
struct OnlyTexts {  // others are as if they were missing
  bool (*is_legal)(absl::string_view);
};
// For readers that refuse what they do not understand.
struct Required {};   // a text that is not ""
struct NumberRange {  // of a number
  int64_t min;
  int64_t max;
};

class JsonFieldWriter {
 public:
  // What is an optional without a value is null.
  template <typename Value, typename... Form>
  void operator()(const char* name, const Value& value, const Form&... form) {
    json_[name] = Write(value, form...);
  }
  // What is as a new one of its type is null.
  template <typename Value, typename... Form>
  void OrNull(const char* name, const Value& value, const Form&... form) {
    json_[name] = value == Value() ? Json() : Write(value, form...);
  }
  // What is as a new one of its type is left out.
  template <typename Value, typename... Form>
  void IfSet(const char* name, const Value& value, const Form&... form) {
    if (value != Value()) {
      json_[name] = Write(value, form...);
    }
  }

  Json Take() && { return std::move(json_); }

  static Json Write(const std::string& text) { return text; }
  static Json Write(const std::string& text, Required /*form*/) { return text; }
  static Json Write(const std::string& text, BytesMax max) { return CutText(text, max.bytes); }
  static Json Write(const std::string& text, OnlyTexts /*form*/) { return text; }
  static Json Write(bool flag) { return flag; }
  static Json Write(int64_t number) { return number; }
  static Json Write(int64_t number, NumberRange /*form*/) { return number; }
  static Json Write(int64_t number, AsText /*form*/) { return absl::StrCat(number); }
  static Json Write(absl::Duration duration) { return absl::ToInt64Seconds(duration); }
  static Json Write(absl::Time time) { return FormatRfc3339(time); }
  static Json Write(absl::Time time, WholeSeconds /*form*/) { return FormatRfc3339Seconds(time); }
  template <typename Enum, std::size_t kCount>
  static Json Write(Enum value, const EnumNames<Enum, kCount>& names) {
    return EnumName(names, value);
  }
  template <typename Struct, typename Walk>
  requires std::is_aggregate_v<Struct>
  static Json Write(const Struct& value, const Walk& walk) {
    JsonFieldWriter fields;
    walk(fields, value);
    return std::move(fields).Take();
  }
  template <typename Value, typename... Form>
  static Json Write(const std::optional<Value>& value, const Form&... form) {
    return value.has_value() ? Write(*value, form...) : Json();
  }
  template <typename Value, typename... Form>
  static Json Write(const std::vector<Value>& values, const Form&... form) {
    return Write(values, CountMax{values.size()}, form...);
  }
  template <typename Value, typename... Form>
  static Json Write(const std::vector<Value>& values, CountMax max, const Form&... form) {
    Json list = Json::array();
    for (std::size_t i = 0; i < std::min(values.size(), max.count); ++i) {
      list.push_back(Write(values[i], form...));
    }
    return list;
  }

 private:
  Json json_ = Json::object();
};

// What is missing or of another type leaves the member as it is, as does a number below 0.
class JsonFieldReader {
 public:
  explicit JsonFieldReader(const Json& json) : json_(json) {}

  template <typename Value, typename... Form>
  void operator()(const char* name, Value& value, const Form&... form) {
    if (const Json* const found = FindJson(json_, {name}); found != nullptr) {
      Read(*found, value, form...);
    }
  }
  template <typename Value, typename... Form>
  void OrNull(const char* name, Value& value, const Form&... form) {
    (*this)(name, value, form...);
  }
  template <typename Value, typename... Form>
  void IfSet(const char* name, Value& value, const Form&... form) {
    (*this)(name, value, form...);
  }

  // Whether there was one.
  static bool Read(const Json& json, std::string& text) {
    if (json.is_string()) {
      text = json.get<std::string>();
    }
    return json.is_string();
  }
  static bool Read(const Json& json, std::string& text, BytesMax max) {
    const bool is_text = Read(json, text);
    text = CutText(text, max.bytes);
    return is_text;
  }
  static bool Read(const Json& json, std::string& text, OnlyTexts only) {
    return json.is_string() && only.is_legal(json.get<std::string>()) && Read(json, text);
  }
  static bool Read(const Json& json, bool& flag) {
    flag = GetBool(json, {}, flag);
    return json.is_boolean();
  }
  static bool Read(const Json& json, int64_t& count) {
    const int64_t number = GetInt(json, {}, -1);
    count = number < 0 ? count : number;
    return number >= 0;
  }
  static bool Read(const Json& json, int64_t& count, AsText /*form*/) {
    int64_t number = 0;
    const bool is_count = absl::SimpleAtoi(GetString(json, {}), &number) && number >= 0;
    count = is_count ? number : count;
    return is_count;
  }
  static bool Read(const Json& json, absl::Time& time, WholeSeconds /*form*/ = {}) {
    const std::optional<absl::Time> read = ParseRfc3339(GetString(json, {}));
    time = read.value_or(time);
    return read.has_value();
  }
  template <typename Enum, std::size_t kCount>
  static bool Read(const Json& json, Enum& value, const EnumNames<Enum, kCount>& names) {
    const std::optional<Enum> read = EnumValue(names, GetString(json, {}));
    value = read.value_or(value);
    return read.has_value();
  }
  template <typename Struct, typename Walk>
  requires std::is_aggregate_v<Struct>
  static bool Read(const Json& json, Struct& value, const Walk& walk) {
    JsonFieldReader fields(json);
    walk(fields, value);
    return json.is_object();
  }
  template <typename Value, typename... Form>
  static bool Read(const Json& json, std::optional<Value>& value, const Form&... form) {
    if (Value read = {}; Read(json, read, form...)) {
      value = std::move(read);
    }
    return value.has_value();
  }
  template <typename Value, typename... Form>
  static bool Read(const Json& json, std::vector<Value>& values, CountMax max,
                   const Form&... form) {
    if (json.is_array()) {
      values.clear();
      for (const Json& element : json) {
        Value value = {};
        if (values.size() < max.count && Read(element, value, form...)) {
          values.push_back(std::move(value));
        }
      }
    }
    return json.is_array();
  }

 private:
  const Json& json_;
};

// `Struct`, or an optional one: without a value null.
template <typename Walk, typename Struct>
Json WriteFields(const Walk& walk, const Struct& value) {
  return JsonFieldWriter::Write(value, walk);
}

// `json` may be null, as where the object is missing.
template <typename Struct, typename Walk>
Struct ReadFields(const Walk& walk, const Json* json) {
  Struct value = {};
  if (json != nullptr) {
    JsonFieldReader::Read(*json, value, walk);
  }
  return value;
}

}  // namespace csidelta
