// Runs one kernel on buffers made from plain numbers, and checks gradients by finite differences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <vector>

#include "exec/cpu/kernel.h"

namespace twinstep {

using Values = std::vector<double>;

// An operand: elements of one type.
class Buffer {
 public:
  Buffer(const Values& values, Dtype dtype);  // Rounded to nearest even.
  // An output nobody has written: NaN (0xff in integers).
  static Buffer Poisoned(std::int64_t elements, Dtype dtype);

  Dtype dtype() const { return dtype_; }
  Values values() const;
  std::byte* data() { return bytes_.data(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  Buffer(Dtype dtype, std::size_t elements);

  Dtype dtype_;
  std::vector<std::byte> bytes_;
};

struct Op {
  OpShape shape;
  Dtype gradient_dtype = Dtype::kFp64;
  StepValues step{};
  TaskPlace place{};
};

// In place: the same buffer among reads and writes.
void RunOn(const Op& op, std::initializer_list<Buffer*> reads,
           std::initializer_list<Buffer*> writes);

// Runs on fp64 operands (int32 ones are given as buffers by the caller) and returns the outputs of
// `sizes` elements.
std::vector<Values> RunFp64(const Op& op, const std::vector<Values>& reads,
                            const std::vector<std::int64_t>& sizes);

OpShape MakeShape(OpCode op, std::initializer_list<std::int64_t> dims, unsigned flags = 0,
                  Dtype dtype = Dtype::kFp64);

// Uniform in [-1, 1), the same for the same seed.
Values Random(std::int64_t count, std::uint32_t seed);
std::vector<Buffer> AsFp64(const std::vector<Values>& values);

double MaxDifference(const Values& a, const Values& b);
// Sum of a[i] b[i].
double Dot(const Values& a, const Values& b);

// Checks `gradient` of `function` at `x` by central differences, element by element (at most
// `samples` of them, evenly spread): relative 1e-6 of the largest element.
void ExpectGradient(const std::function<double(const Values&)>& function, Values x,
                    const Values& gradient, std::int64_t samples = 64);

// Rows of `width` from `values`: for each index in `rows`, row rows[i].
Values TakeRows(const Values& values, std::int64_t width, const std::vector<std::int64_t>& rows);
// Columns [begin, end) of a matrix with `width` columns.
Values TakeColumns(const Values& values, std::int64_t width, std::int64_t begin, std::int64_t end);
Values Concatenate(const std::vector<Values>& parts);
void AddTo(Values& sum, const Values& addend);

}  // namespace twinstep
