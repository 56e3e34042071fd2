#include "tests/exec/cpu/kernel_tester.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace twinstep {
namespace {

// Slow and independent of the kernels' conversions: a number with `mantissa` bits after the point
// and exponents from `smallest` to `largest`.
double RoundTo(double x, int mantissa, int smallest, int largest) {
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), smallest);
  const double unit = std::ldexp(1.0, exponent - mantissa);
  const double rounded = std::nearbyint(x / unit) * unit;
  if (std::abs(rounded) >= std::ldexp(2.0, largest)) {
    return std::copysign(std::numeric_limits<double>::infinity(), x);
  }
  return rounded;
}

double FromBits(std::uint16_t bits, int mantissa_bits, int bias) {
  const int exponent_bits = 15 - mantissa_bits;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

std::uint16_t ToBits(double x, int mantissa_bits, int bias) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const int infinity = 0x7fff >> mantissa_bits << mantissa_bits;
  if (std::isnan(x)) return static_cast<std::uint16_t>(infinity | 1 << (mantissa_bits - 1));
  const double rounded = std::abs(RoundTo(x, mantissa_bits, 1 - bias, bias));
  if (std::isinf(rounded)) return static_cast<std::uint16_t>(sign | infinity);
  if (rounded < std::ldexp(1.0, 1 - bias)) {
    return static_cast<std::uint16_t>(
        sign | static_cast<int>(std::ldexp(rounded, bias - 1 + mantissa_bits)));
  }
  const int exponent = std::ilogb(rounded);
  const int mantissa = static_cast<int>(std::ldexp(rounded, mantissa_bits - exponent));
  return static_cast<std::uint16_t>(sign |
                                    ((exponent + bias - 1) * (1 << mantissa_bits) + mantissa));
}

constexpr int kBf16Mantissa = 7, kBf16Bias = 127, kFp16Mantissa = 10, kFp16Bias = 15;

template <typename T>
void Put(std::vector<std::byte>& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at * sizeof value, &value, sizeof value);
}

template <typename T>
T Get(const std::vector<std::byte>& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at * sizeof value, sizeof value);
  return value;
}

}  // namespace

Buffer::Buffer(Dtype dtype, std::size_t elements)
    : dtype_(dtype), bytes_(elements * static_cast<std::size_t>(DtypeBytes(dtype))) {}

Buffer::Buffer(const Values& values, Dtype dtype) : Buffer(dtype, values.size()) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    switch (dtype) {
      case Dtype::kBf16:
        Put(bytes_, i, ToBits(x, kBf16Mantissa, kBf16Bias));
        break;
      case Dtype::kFp16:
        Put(bytes_, i, ToBits(x, kFp16Mantissa, kFp16Bias));
        break;
      case Dtype::kFp32:
        Put(bytes_, i, static_cast<float>(x));
        break;
      case Dtype::kFp64:
        Put(bytes_, i, x);
        break;
      case Dtype::kInt32:
        Put(bytes_, i, static_cast<std::int32_t>(x));
        break;
      case Dtype::kUint8:
        Put(bytes_, i, static_cast<std::uint8_t>(x));
        break;
    }
  }
}

Buffer Buffer::Poisoned(std::int64_t elements, Dtype dtype) {
  Buffer buffer(dtype, static_cast<std::size_t>(elements));
  std::fill(buffer.bytes_.begin(), buffer.bytes_.end(), std::byte{0xff});
  return buffer;
}

Values Buffer::values() const {
  const std::size_t elements = bytes_.size() / static_cast<std::size_t>(DtypeBytes(dtype_));
  Values values(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    switch (dtype_) {
      case Dtype::kBf16:
        values[i] = FromBits(Get<std::uint16_t>(bytes_, i), kBf16Mantissa, kBf16Bias);
        break;
      case Dtype::kFp16:
        values[i] = FromBits(Get<std::uint16_t>(bytes_, i), kFp16Mantissa, kFp16Bias);
        break;
      case Dtype::kFp32:
        values[i] = Get<float>(bytes_, i);
        break;
      case Dtype::kFp64:
        values[i] = Get<double>(bytes_, i);
        break;
      case Dtype::kInt32:
        values[i] = Get<std::int32_t>(bytes_, i);
        break;
      case Dtype::kUint8:
        values[i] = Get<std::uint8_t>(bytes_, i);
        break;
    }
  }
  return values;
}

void RunOn(const Op& op, std::initializer_list<Buffer*> reads,
           std::initializer_list<Buffer*> writes) {
  std::vector<const std::byte*> read_pointers;
  std::vector<std::byte*> write_pointers;
  for (Buffer* buffer : reads) read_pointers.push_back(buffer->data());
  for (Buffer* buffer : writes) write_pointers.push_back(buffer->data());
  RunKernel({.shape = op.shape,
             .gradient_dtype = op.gradient_dtype,
             .state_dtype = op.shape.dtype == Dtype::kFp64 ? Dtype::kFp64 : Dtype::kFp32,
             .reads = read_pointers,
             .writes = write_pointers,
             .step = op.step,
             .place = op.place});
}

std::vector<Buffer> AsFp64(const std::vector<Values>& values) {
  std::vector<Buffer> buffers;
  for (const Values& x : values) buffers.emplace_back(x, Dtype::kFp64);
  return buffers;
}

std::vector<Values> RunFp64(const Op& op, const std::vector<Values>& reads,
                            const std::vector<std::int64_t>& sizes) {
  std::vector<Buffer> inputs = AsFp64(reads), outputs;
  for (const std::int64_t size : sizes) outputs.push_back(Buffer::Poisoned(size, Dtype::kFp64));
  std::vector<const std::byte*> read_pointers;
  std::vector<std::byte*> write_pointers;
  for (Buffer& buffer : inputs) read_pointers.push_back(buffer.data());
  for (Buffer& buffer : outputs) write_pointers.push_back(buffer.data());
  RunKernel({.shape = op.shape,
             .gradient_dtype = op.gradient_dtype,
             .state_dtype = Dtype::kFp64,
             .reads = read_pointers,
             .writes = write_pointers,
             .step = op.step,
             .place = op.place});
  std::vector<Values> values;
  for (const Buffer& buffer : outputs) values.push_back(buffer.values());
  return values;
}

OpShape MakeShape(OpCode op, std::initializer_list<std::int64_t> dims, unsigned flags,
                  Dtype dtype) {
  OpShape shape{.op = op, .dtype = dtype, .flags = static_cast<std::uint16_t>(flags)};
  std::copy(dims.begin(), dims.end(), shape.dims.begin());
  return shape;
}

Values Random(std::int64_t count, std::uint32_t seed) {
  std::mt19937_64 generator(seed);
  Values values(static_cast<std::size_t>(count));
  for (double& x : values) x = std::ldexp(static_cast<double>(generator() >> 11), -52) - 1;
  return values;
}

double MaxDifference(const Values& a, const Values& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    // A NaN differs from everything.
    if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
  }
  return largest;
}

double Dot(const Values& a, const Values& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void ExpectGradient(const std::function<double(const Values&)>& function, Values x,
                    const Values& gradient, std::int64_t samples) {
  ASSERT_EQ(x.size(), gradient.size());
  constexpr double kStep = 1e-5, kTolerance = 1e-6;
  double largest = 0;
  for (const double g : gradient) {
    ASSERT_TRUE(std::isfinite(g));
    largest = std::max(largest, std::abs(g));
  }
  ASSERT_GT(largest, 0);
  const std::size_t stride = std::max<std::size_t>(1, x.size() / static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < x.size(); i += stride) {
    const double at = x[i];
    x[i] = at + kStep;
    const double above = function(x);
    x[i] = at - kStep;
    const double below = function(x);
    x[i] = at;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), kTolerance * largest)
        << "element " << i;
  }
}

Values TakeRows(const Values& values, std::int64_t width, const std::vector<std::int64_t>& rows) {
  Values taken;
  for (const std::int64_t row : rows) {
    taken.insert(taken.end(), values.begin() + row * width, values.begin() + (row + 1) * width);
  }
  return taken;
}

Values TakeColumns(const Values& values, std::int64_t width, std::int64_t begin, std::int64_t end) {
  Values taken;
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / width;
  for (std::int64_t i = 0; i < rows; ++i) {
    taken.insert(taken.end(), values.begin() + i * width + begin, values.begin() + i * width + end);
  }
  return taken;
}

Values Concatenate(const std::vector<Values>& parts) {
  Values all;
  for (const Values& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

void AddTo(Values& sum, const Values& addend) {
  ASSERT_EQ(sum.size(), addend.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += addend[i];
}

}  // namespace twinstep
