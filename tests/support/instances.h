#pragma once
// Templates of others that nearly every test uses: declared here, made once in instances.cc, and
// optimized there. A test source neither instantiates their members again nor makes code of them,
// which at -O0 is most of what a test runs. This is among the precompiled headers of tests.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

extern template class std::basic_string<char>;
extern template class nlohmann::basic_json<>;
extern template class std::vector<std::string>;
extern template class std::vector<nlohmann::json>;
extern template class std::map<std::string, std::string>;
extern template class std::map<std::string, nlohmann::json, std::less<>>;
