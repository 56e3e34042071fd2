// Arithmetic in the field of integers modulo the prime 2^61 - 1, and hashing into it. The symbolic
// interpreter's values are its elements: sums of hashes commute exactly, and two different sums
// collide with a probability of about 2^-61.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace twinstep::field {

inline constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;

constexpr std::uint64_t Add(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}

constexpr std::uint64_t Subtract(std::uint64_t a, std::uint64_t b) {
  return a >= b ? a - b : a + kPrime - b;
}

// Finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection that mixes all bits.
constexpr std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// An element that depends on all the words and on their order.
constexpr std::uint64_t Hash(std::initializer_list<std::uint64_t> words) {
  std::uint64_t state = 0x9e3779b97f4a7c15u;
  for (const std::uint64_t word : words) {
    state = Mix(state + 0x9e3779b97f4a7c15u) ^ Mix(word + 0xd1b54a32d192ed03u);
    state = Mix(state);
  }
  const std::uint64_t low = state & kPrime;
  return low == kPrime ? 0 : low;
}

}  // namespace twinstep::field
