// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// Text: the words error messages are made of.
//
// Owns:       nothing.
// Thread:     any; pure functions.
// Time:       none.
// Invariants: what comes out is one line, whatever a user typed.
// See also:   result.hpp.
namespace elevd::config {

// The text in single quotes; control characters become \xNN.
std::string quote(std::string_view text);

// "a, b, c"
std::string joined(std::span<const std::string_view> words);

// The candidate a typing error away from `word`: the smallest number of inserted, removed, replaced
// or swapped characters, at most a third of the word's length (at least 1); of equals the first.
// A candidate that ends in "/WORD" counts as distance 0. Empty: none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

// ", did you mean X?" for the nearest candidate, else ", expected one of a, b, c"
// (", expected nothing" if there is no candidate).
std::string suggestion(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace elevd::config
