// SPDX-License-Identifier: Apache-2.0
#include "config/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace elevd::config {
namespace {

// Optimal string alignment distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

bool ends_in_component(std::string_view path, std::string_view word) {
  return path.size() > word.size() && path.ends_with(word) &&
         path[path.size() - word.size() - 1] == '/';
}

}  // namespace

std::string quote(std::string_view text) {
  std::string out = "'";
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += character;
    }
  }
  out += '\'';
  return out;
}

std::string joined(std::span<const std::string_view> words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongestCompared = 64;  // a longer word is no typing error
  if (word.empty() || word.size() > kLongestCompared) return {};
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::string_view found;
  for (const std::string_view candidate : candidates) {
    const std::size_t far = ends_in_component(candidate, word) ? 0 : distance(word, candidate);
    if (far < best) {
      best = far;
      found = candidate;
    }
  }
  return found;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string_view near = nearest(word, candidates);
  if (!near.empty()) return fmt::format(", did you mean {}?", near);
  if (candidates.empty()) return ", expected nothing";
  return fmt::format(", expected one of {}", joined(candidates));
}

}  // namespace elevd::config
