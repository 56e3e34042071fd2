// Temporary arrays of one kernel call, from memory that each thread keeps: after a thread's
// largest call nothing is allocated any more.
//
//   Scratch scratch(Scratch::Bytes<float>(n) + Scratch::Bytes<float>(m));
//   float* x = scratch.Take<float>(n);
//   float* y = scratch.Take<float>(m);
//
// One Scratch at a time in a thread. Contents are undefined.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twinstep {

class Scratch {
 public:
  // What one array takes, alignment included.
  template <typename T>
  static constexpr std::size_t Bytes(std::int64_t elements) {
    constexpr std::size_t kAlignment = 64;
    return (static_cast<std::size_t>(elements) * sizeof(T) + kAlignment - 1) / kAlignment *
           kAlignment;
  }

  explicit Scratch(std::size_t bytes);
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <typename T>
  T* Take(std::int64_t elements) {
    return reinterpret_cast<T*>(TakeBytes(Bytes<T>(elements)));
  }

  // The most that a call of this thread took since ForgetPeak.
  static std::size_t PeakBytes();
  static void ForgetPeak();

  // Makes sure that calls of this thread of up to `bytes` allocate nothing.
  static void Reserve(std::size_t bytes);

 private:
  std::byte* TakeBytes(std::size_t bytes);

  std::byte* next_;
  std::byte* end_;
};

}  // namespace twinstep
