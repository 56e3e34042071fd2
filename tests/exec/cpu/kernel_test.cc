// What holds for every operation: types agree, threads do not disturb each other, nothing is
// allocated after ReserveScratch.
#include "exec/cpu/kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"
#include "tests/exec/runtime/allocation_count.h"

namespace twinstep {
namespace {

constexpr std::int64_t kSamples = 2, kSequence = 70, kHeads = 4, kKvHeads = 2, kHeadDim = 6;
constexpr std::int64_t kRows = kSamples * kSequence, kHidden = kHeads * kHeadDim;
constexpr std::int64_t kKvWidth = 2 * kKvHeads * kHeadDim, kVocabulary = 40;
constexpr std::int64_t kSquare = kSamples * kHeads * kSequence * kSequence;

// One operand: what it holds, and how many elements.
enum class Content { kNumbers, kPositive, kTokens, kMask, kLimbs };
enum class Width { kActivation, kGradient, kStatistics, kInt, kByte, kFp64 };
struct Operand {
  std::int64_t elements;
  Width width = Width::kActivation;
  Content content = Content::kNumbers;
};

struct Case {
  OpShape shape;
  std::vector<Operand> reads, writes;
  // Pairs of read and write that are one buffer.
  std::vector<std::pair<std::size_t, std::size_t>> in_place;
};

Case MakeCase(OpCode op, std::initializer_list<std::int64_t> dims, unsigned flags,
              std::vector<Operand> reads, std::vector<Operand> writes,
              std::vector<std::pair<std::size_t, std::size_t>> in_place = {}) {
  return {MakeShape(op, dims, flags), std::move(reads), std::move(writes), std::move(in_place)};
}

std::vector<Case> AllCases() {
  constexpr std::int64_t n = kRows, h = kHidden, out = 31;
  const Operand x{n * h}, y{n * out}, w{out * h}, dw{out * h, Width::kGradient};
  const Operand bias{out}, db{out, Width::kGradient}, gamma{h}, dgamma{h, Width::kGradient};
  const Operand kv{n * kKvWidth}, qkv{n * (h + kKvWidth)}, square{kSquare};
  const Operand probabilities{kSquare, Width::kActivation, Content::kPositive};
  const Operand lse{n * kHeads, Width::kStatistics}, gate_up{2 * n * h};
  const Operand mask{n * h, Width::kByte, Content::kMask};
  const Operand tokens{n, Width::kInt, Content::kTokens};
  const Operand table{kVocabulary * h}, dtable{kVocabulary * h, Width::kGradient};
  const Operand positions{kSequence * h}, dpositions{kSequence * h, Width::kGradient};
  const Operand logits{n * kVocabulary}, stats{3 * n, Width::kStatistics, Content::kPositive};
  const Operand global{2 * n, Width::kStatistics, Content::kPositive}, loss{1, Width::kFp64};
  const Operand limbs{4, Width::kFp64, Content::kLimbs}, coefficient{1, Width::kFp64};
  const Operand gradient{h, Width::kGradient}, state{h, Width::kStatistics};
  const Operand variance{h, Width::kStatistics, Content::kPositive};
  const auto attention = [](OpCode op, unsigned flags, std::vector<Operand> reads,
                            std::vector<Operand> writes,
                            std::vector<std::pair<std::size_t, std::size_t>> in_place = {}) {
    return MakeCase(op, {kSamples, kHeads, kKvHeads, kSequence, kSequence, kHeadDim}, flags,
                    std::move(reads), std::move(writes), std::move(in_place));
  };
  return {
      MakeCase(OpCode::kGemmForward, {n, out, h}, kHasBias, {x, w, bias}, {y}),
      MakeCase(OpCode::kGemmDgrad, {n, out, h}, 0, {y, w}, {x}),
      MakeCase(OpCode::kGemmWgrad, {n, out, h}, kHasBias, {x, y}, {dw, db}),
      MakeCase(OpCode::kGemmWgrad, {n, out, h}, kHasBias | kAccumulateGradient, {x, y, dw, db},
               {dw, db}, {{2, 0}, {3, 1}}),
      MakeCase(OpCode::kNormForward, {n, h}, 0, {x, gamma, gamma}, {x}),
      MakeCase(OpCode::kNormForward, {n, h}, kRmsNorm, {x, gamma}, {x}),
      MakeCase(OpCode::kNormBackward, {n, h}, kHasResidual, {x, x, gamma, x}, {x, dgamma, dgamma}),
      MakeCase(OpCode::kNormBackward, {n, h}, kRmsNorm | kAccumulateGradient, {x, x, gamma, dgamma},
               {x, dgamma}, {{3, 1}}),
      attention(OpCode::kSplitQkv, kRotary, {qkv}, {x, kv}),
      attention(OpCode::kSplitQkvBackward, kRotary, {x, kv}, {qkv}),
      attention(OpCode::kAttentionForward, kHasDropout, {x, kv}, {x, lse}),
      attention(OpCode::kAttentionBackward, 0, {x, x, kv, x, lse}, {x, kv}),
      attention(OpCode::kAttentionScores, 0, {x, kv}, {square}),
      attention(OpCode::kSoftmaxForward, 0, {square}, {square}),
      attention(OpCode::kAttentionContext, 0, {probabilities, kv}, {x}),
      attention(OpCode::kAttentionContextBackward, 0, {x, probabilities, kv}, {square, kv}),
      attention(OpCode::kSoftmaxBackward, 0, {square, probabilities}, {square}),
      attention(OpCode::kAttentionScoresBackward, 0, {square, x, kv, kv}, {x, kv}, {{3, 1}}),
      MakeCase(OpCode::kActivationForward, {n, h}, 0, {x}, {x}),
      MakeCase(OpCode::kActivationBackward, {n, h}, 0, {x, x}, {x}),
      MakeCase(OpCode::kActivationForward, {n, h}, kRelu, {x}, {x}),
      MakeCase(OpCode::kActivationBackward, {n, h}, kRelu, {x, x}, {x}),
      MakeCase(OpCode::kSiluForward, {n, h}, 0, {gate_up}, {x}),
      MakeCase(OpCode::kSiluBackward, {n, h}, 0, {x, gate_up, gate_up}, {gate_up}, {{2, 0}}),
      MakeCase(OpCode::kMulForward, {n, h}, 0, {x, gate_up}, {x}),
      MakeCase(OpCode::kMulBackward, {n, h}, 0, {x, x, gate_up}, {x, gate_up}),
      MakeCase(OpCode::kAdd, {n, h}, kHasBias, {x, x, gamma}, {x}),
      MakeCase(OpCode::kDropoutAdd, {n, h}, kHasBias, {x, x, gamma}, {x, mask}),
      MakeCase(OpCode::kDropoutForward, {n, h}, 0, {x}, {x, mask}),
      MakeCase(OpCode::kDropoutBackward, {n, h}, 0, {x, mask}, {x}),
      MakeCase(OpCode::kCopyOnDevice, {n * h}, 0, {x}, {x}),
      MakeCase(OpCode::kEmbeddingForward, {n, h, kVocabulary, kSamples, 0, 1}, kHasPositions,
               {tokens, table, positions}, {x}),
      MakeCase(OpCode::kEmbeddingBackward, {n, h, kVocabulary, kSamples, 0, 1}, kHasPositions,
               {tokens, x}, {dtable, dpositions}),
      MakeCase(OpCode::kCrossEntropyStats, {n, kVocabulary, n, kVocabulary}, 0, {logits, tokens},
               {stats}),
      MakeCase(OpCode::kCrossEntropyLoss, {n, kVocabulary, n, kVocabulary}, 0, {stats},
               {loss, global}),
      MakeCase(OpCode::kCrossEntropyBackward, {n, kVocabulary, n, kVocabulary}, 0,
               {logits, tokens, global}, {logits}, {{0, 0}}),
      MakeCase(OpCode::kAdam, {h, 7}, kHasClip, {gradient, state, state, variance, coefficient},
               {state, state, variance, gamma}, {{1, 0}, {2, 1}, {3, 2}}),
      MakeCase(OpCode::kGradNorm, {h, 0, h}, kAccumulateGradient, {gamma, limbs}, {limbs},
               {{1, 0}}),
      MakeCase(OpCode::kClipCoefficient, {}, 0, {limbs}, {coefficient}),
      MakeCase(OpCode::kAccumulate, {n * h}, 0, {x, x}, {x}, {{1, 0}}),
  };
}

Dtype DtypeOf(Width width, Dtype dtype) {
  switch (width) {
    case Width::kActivation:
      return dtype;
    case Width::kGradient:
    case Width::kStatistics:
      return dtype == Dtype::kFp64 ? Dtype::kFp64 : Dtype::kFp32;
    case Width::kInt:
      return Dtype::kInt32;
    case Width::kByte:
      return Dtype::kUint8;
    case Width::kFp64:
      return Dtype::kFp64;
  }
  return dtype;
}

// Inputs that every type holds exactly, so that all types compute from the same numbers.
Values Inputs(const Operand& operand, std::uint32_t seed) {
  Values values = Random(operand.elements, seed);
  for (double& x : values) {
    switch (operand.content) {
      case Content::kNumbers:
        x = std::round(x * 64) / 64;
        break;
      case Content::kPositive:
        x = std::round(std::abs(x) * 60 + 4) / 64;
        break;
      case Content::kTokens:
        x = std::floor(std::abs(x) * kVocabulary);
        break;
      case Content::kMask:
        x = x > 0 ? 1 : 0;
        break;
      case Content::kLimbs:
        x = 0;
        break;
    }
  }
  return values;
}

class PreparedCase {
 public:
  PreparedCase(const Case& what, Dtype dtype) : shape_(what.shape) {
    shape_.dtype = dtype;
    if (shape_.op == OpCode::kCopyOnDevice) shape_.dims[0] *= DtypeBytes(dtype);
    if (shape_.op == OpCode::kDropoutAdd || shape_.op == OpCode::kDropoutForward) {
      shape_.index = static_cast<std::uint16_t>(DropoutSite::kMlpResidual);
    }
    gradient_dtype_ = DtypeOf(Width::kGradient, dtype);
    std::uint32_t seed = 0;
    for (const Operand& operand : what.reads) {
      reads_.emplace_back(Inputs(operand, ++seed), DtypeOf(operand.width, dtype));
    }
    for (const Operand& operand : what.writes) {
      writes_.push_back(Buffer::Poisoned(operand.elements, DtypeOf(operand.width, dtype)));
    }
    for (Buffer& buffer : reads_) read_pointers_.push_back(buffer.data());
    for (Buffer& buffer : writes_) write_pointers_.push_back(buffer.data());
    for (const auto& [read, write] : what.in_place) {
      std::copy(reads_[read].bytes().begin(), reads_[read].bytes().end(), writes_[write].data());
      read_pointers_[read] = writes_[write].data();
    }
    step_ = {.step = 1, .clip_norm = 1, .hidden_dropout = 0.2, .attention_dropout = 0.2, .seed = 3};
  }

  void Run() const {
    RunKernel({.shape = shape_,
               .gradient_dtype = gradient_dtype_,
               .state_dtype = gradient_dtype_,
               .reads = read_pointers_,
               .writes = write_pointers_,
               .step = step_,
               .place = {.micro_batch_size = kSamples,
                         .sequence_length = kSequence,
                         .position_rows = kSequence}});
  }
  const OpShape& shape() const { return shape_; }
  const std::vector<Buffer>& results() const { return writes_; }

 private:
  OpShape shape_;
  Dtype gradient_dtype_;
  StepValues step_;
  std::vector<Buffer> reads_, writes_;
  std::vector<const std::byte*> read_pointers_;
  std::vector<std::byte*> write_pointers_;
};

std::string Describe(const Case& what, Dtype dtype) {
  return std::string(Name(what.shape.op)) + " " + Name(dtype);
}

double Largest(const Values& values) {
  double largest = 0;
  for (const double x : values) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  return largest;
}

TEST(KernelTest, TypesAgree) {
  for (const Case& what : AllCases()) {
    PreparedCase exact(what, Dtype::kFp64);
    exact.Run();
    for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16, Dtype::kFp16}) {
      PreparedCase narrow(what, dtype);
      narrow.Run();
      for (std::size_t i = 0; i < exact.results().size(); ++i) {
        if (what.writes[i].content == Content::kLimbs) continue;
        const Values expected = exact.results()[i].values(), actual = narrow.results()[i].values();
        const Dtype stored = narrow.results()[i].dtype();
        // Half a unit in the last place on top of fp32's own rounding.
        const double tolerance = stored == Dtype::kBf16   ? 0x1p-8
                                 : stored == Dtype::kFp16 ? 0x1p-11
                                                          : 0;
        const double floor = 2e-5 * Largest(expected);
        for (std::size_t j = 0; j < expected.size(); ++j) {
          // Equal: infinities. Both NaN: the half that another operation writes.
          if (actual[j] == expected[j] || (std::isnan(actual[j]) && std::isnan(expected[j]))) {
            continue;
          }
          ASSERT_NEAR(actual[j], expected[j], tolerance * std::abs(expected[j]) + floor)
              << Describe(what, dtype) << " output " << i << " element " << j;
        }
      }
    }
  }
}

TEST(KernelTest, EveryOperationIsCovered) {
  std::vector<bool> covered(kOpCodeCount);
  for (const Case& what : AllCases()) covered[static_cast<std::size_t>(what.shape.op)] = true;
  for (int op = 0; op < kOpCodeCount; ++op) {
    EXPECT_EQ(covered[static_cast<std::size_t>(op)], IsKernel(static_cast<OpCode>(op)))
        << Name(static_cast<OpCode>(op));
  }
}

TEST(KernelTest, ThreadsDoNotChangeBits) {
  const std::vector<Case> cases = AllCases();
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16}) {
    std::vector<PreparedCase> alone;
    for (const Case& what : cases) {
      alone.emplace_back(what, dtype);
      alone.back().Run();
    }
    constexpr std::size_t kThreads = 3;
    std::vector<std::vector<PreparedCase>> together(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (const Case& what : cases) {
          together[t].emplace_back(what, dtype);
          together[t].back().Run();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      for (std::size_t t = 0; t < kThreads; ++t) {
        for (std::size_t k = 0; k < alone[i].results().size(); ++k) {
          EXPECT_EQ(together[t][i].results()[k].bytes(), alone[i].results()[k].bytes())
              << Describe(cases[i], dtype);
        }
      }
    }
  }
}

TEST(KernelTest, AllocatesNothingAfterReserve) {
  std::vector<PreparedCase> prepared;
  for (const Dtype dtype : {Dtype::kFp64, Dtype::kFp32, Dtype::kBf16}) {
    for (const Case& what : AllCases()) prepared.emplace_back(what, dtype);
  }
  std::vector<OpShape> shapes;
  for (const PreparedCase& one : prepared) shapes.push_back(one.shape());
  std::thread([&] {
    ReserveScratch(shapes);
    const std::int64_t before = AllocationCount();
    for (const PreparedCase& one : prepared) one.Run();
    EXPECT_EQ(AllocationCount() - before, 0);
  }).join();
}

TEST(KernelDeathTest, MovementIsTheRuntimes) {
  const StepValues step;
  const KernelCall call{.shape = {.op = OpCode::kSend},
                        .gradient_dtype = Dtype::kFp32,
                        .state_dtype = Dtype::kFp32,
                        .reads = {},
                        .writes = {},
                        .step = step,
                        .place = {}};
  EXPECT_DEATH(RunKernel(call), "send is no kernel");
}

}  // namespace
}  // namespace twinstep
