#include "sim/graph/symbolic_ops.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

__extension__ using Wide = __int128;

// A fraction [begin, begin + length) of `total` of a tensor's first axis.
struct Range {
  std::int64_t begin = 0, length = 1, total = 1;

  bool IsWhole() const { return begin == 0 && length == total; }
  bool Matches(const SymbolicPiece& piece) const {
    if (IsWhole()) return piece.IsWhole();
    return Wide{begin} * piece.total == Wide{piece.begin} * total &&
           Wide{length} * piece.total == Wide{piece.bytes} * total;
  }
};

// Bits of an OpShape's flags that change what is computed.
constexpr std::uint16_t kMeaning = kRmsNorm | kRotary | kRelu | kHasDropout;

// Separates the hashes of an operation's several results.
enum Salt : std::uint64_t { kFirst, kSecond, kThird, kBiasSalt, kPositionSalt, kNormSalt };

class Interpreter {
 public:
  Interpreter(const OpShape& shape, std::uint16_t block, std::span<const SymbolicOperand> reads,
              std::span<SymbolicOperand> writes, SymbolicFault& fault)
      : shape_(shape), block_(block), reads_(reads), writes_(writes), fault_(fault) {}

  bool Run();

 private:
  bool Has(OpFlags flag) const { return (shape_.flags & flag) != 0; }
  bool Fail(std::size_t operand, std::string text) {
    fault_ = {static_cast<std::uint32_t>(operand), std::move(text)};
    return false;
  }

  // The one complete value of an operand, whatever its range, or null and a fault.
  const SymbolicPiece* Single(std::size_t read, bool must_be_complete = true);
  // An operand split like the others along its first axis (the first call sets the range).
  const SymbolicValue* Tokens(std::size_t read);
  // An operand that must hold its shard's whole first axis (weights, gathered keys).
  const SymbolicValue* Weight(std::size_t read);
  // As Tokens, Weight; the tensor-parallel shard must be the whole tensor.
  const SymbolicValue* WholeTokens(std::size_t read) { return Unsplit(read, Tokens(read)); }
  const SymbolicValue* WholeWeight(std::size_t read) { return Unsplit(read, Weight(read)); }
  const SymbolicValue* Unsplit(std::size_t read, const SymbolicValue* value);
  // The shards (tensor parallel) of two operands must be the same.
  bool SameShard(std::size_t read, const SymbolicValue& value, const SymbolicValue& other);

  std::uint64_t Hash(Salt salt, std::initializer_list<const SymbolicValue*> inputs) const;

  // Writes a value along the range of the token operands.
  bool WriteTokens(std::size_t write, const SymbolicValue& value);
  // Writes a value that covers the whole operand.
  bool WriteWhole(std::size_t write, const SymbolicValue& value);
  // Writes a weight gradient, added to read `previous` if there is one (PreviousGradient).
  bool WriteGradient(std::size_t write, std::uint64_t v, const SymbolicValue& shard);

  SymbolicValue AsColumns(std::uint64_t v, const SymbolicValue& shard) const;
  // Which mask a dropout draws for its input; 0 for what drops nothing.
  std::uint64_t MaskKey() const;

  bool GemmForward();
  bool GemmDgrad();
  bool GemmWgrad();
  bool NormForward();
  bool NormBackward();
  bool Attention(std::size_t token_reads, std::size_t kv_read, std::size_t token_writes);
  bool AttentionBackward();
  bool AttentionContextBackward();
  bool AttentionScoresBackward();
  bool WriteKvGradient(std::size_t write, std::uint64_t v, const SymbolicValue& shard);
  bool CheckQueryRows(std::size_t read);
  bool Elementwise(std::size_t inputs);
  bool AddOrDropoutAdd();
  bool EmbeddingForward();
  bool EmbeddingBackward();
  bool CrossEntropyStats();
  bool CrossEntropyLoss();
  bool CrossEntropyBackward();
  bool Adam();
  bool GradNorm();
  bool ClipCoefficient();

  const OpShape& shape_;
  std::uint16_t block_;
  std::span<const SymbolicOperand> reads_;
  std::span<SymbolicOperand> writes_;
  SymbolicFault& fault_;
  Range range_;
  bool range_known_ = false;
};

const SymbolicPiece* Interpreter::Single(std::size_t read, bool must_be_complete) {
  if (read >= reads_.size()) {
    Fail(read, StrCat("is missing: the operation has ", reads_.size(), " inputs"));
    return nullptr;
  }
  const SymbolicOperand& operand = reads_[read];
  if (operand.pieces.size() != 1 || operand.pieces[0].offset != 0 ||
      operand.pieces[0].bytes != operand.bytes) {
    Fail(read, StrCat(DescribePieces(operand), " where one tensor is needed"));
    return nullptr;
  }
  const SymbolicPiece& piece = operand.pieces[0];
  if (must_be_complete && piece.value.partial != PartialAxis::kComplete) {
    Fail(read, StrCat("reads ", DescribePartial(piece.value), " where the complete sum is needed"));
    return nullptr;
  }
  return &piece;
}

const SymbolicValue* Interpreter::Tokens(std::size_t read) {
  const SymbolicPiece* piece = Single(read);
  if (piece == nullptr) return nullptr;
  if (!range_known_) {
    range_ = {piece->begin, piece->bytes, piece->total};
    range_known_ = true;
  } else if (!range_.Matches(*piece)) {
    const SymbolicPiece first{0, range_.length, range_.begin, range_.total, {}};
    Fail(read, StrCat("reads ", DescribeRange(*piece), " beside ", DescribeRange(first)));
    return nullptr;
  }
  return &piece->value;
}

const SymbolicValue* Interpreter::Weight(std::size_t read) {
  const SymbolicPiece* piece = Single(read);
  if (piece == nullptr) return nullptr;
  if (!piece->IsWhole()) {
    Fail(read, StrCat("reads ", DescribeRange(*piece), " where the whole tensor is needed"));
    return nullptr;
  }
  return &piece->value;
}

const SymbolicValue* Interpreter::Unsplit(std::size_t read, const SymbolicValue* value) {
  if (value != nullptr && value->axis != ShardAxis::kWhole) {
    Fail(read, StrCat("reads ", DescribeShard(*value), " where the whole tensor is needed"));
    return nullptr;
  }
  return value;
}

bool Interpreter::SameShard(std::size_t read, const SymbolicValue& value,
                            const SymbolicValue& other) {
  if (value.SameShard(other)) return true;
  return Fail(read, StrCat("reads ", DescribeShard(value), " beside ", DescribeShard(other)));
}

std::uint64_t Interpreter::Hash(Salt salt,
                                std::initializer_list<const SymbolicValue*> inputs) const {
  std::uint64_t state = field::Hash({static_cast<std::uint64_t>(shape_.op),
                                     static_cast<std::uint64_t>(shape_.flags & kMeaning),
                                     static_cast<std::uint64_t>(salt), inputs.size()});
  for (const SymbolicValue* input : inputs) state = field::Hash({state, input->v});
  return state;
}

bool Interpreter::WriteTokens(std::size_t write, const SymbolicValue& value) {
  if (write >= writes_.size()) return Fail(reads_.size() + write, "is missing");
  SymbolicOperand& out = writes_[write];
  SymbolicPiece piece{0, out.bytes, 0, out.bytes, value};
  if (!range_.IsWhole()) {
    const Wide begin = Wide{range_.begin} * out.bytes;
    const Wide total = Wide{range_.total} * out.bytes;
    if (begin % range_.length != 0 || total % range_.length != 0) {
      return Fail(reads_.size() + write,
                  StrCat("of ", out.bytes, " bytes cannot hold [", range_.begin, ", ",
                         range_.begin + range_.length, ") of ", range_.total, " in whole rows"));
    }
    piece.begin = static_cast<std::int64_t>(begin / range_.length);
    piece.total = static_cast<std::int64_t>(total / range_.length);
  }
  out.pieces.push_back(piece);
  return true;
}

bool Interpreter::WriteWhole(std::size_t write, const SymbolicValue& value) {
  if (write >= writes_.size()) return Fail(reads_.size() + write, "is missing");
  SymbolicOperand& out = writes_[write];
  out.pieces.push_back({0, out.bytes, 0, out.bytes, value});
  return true;
}

bool Interpreter::WriteGradient(std::size_t write, std::uint64_t v, const SymbolicValue& shard) {
  const std::size_t previous = PreviousGradient(shape_, write);
  SymbolicValue value =
      Addend(v, PartialAxis::kTokens, range_.begin, range_.begin + range_.length, range_.total);
  value.axis = shard.axis;
  value.axis_index = shard.axis_index;
  value.axis_count = shard.axis_count;
  if (previous != kNone) {
    const SymbolicPiece* sum = Single(previous, false);
    if (sum == nullptr) return false;
    if (!sum->IsWhole()) {
      return Fail(previous, StrCat("adds to ", DescribeRange(*sum), " of a gradient"));
    }
    if (!SameShard(previous, sum->value, value)) return false;
    AddTo(value, sum->value);
  }
  return WriteWhole(write, value);
}

SymbolicValue Interpreter::AsColumns(std::uint64_t v, const SymbolicValue& shard) const {
  SymbolicValue value;
  value.v = v;
  if (shard.axis != ShardAxis::kWhole) {
    value.axis = ShardAxis::kColumns;
    value.axis_index = shard.axis_index;
    value.axis_count = shard.axis_count;
  }
  return value;
}

std::uint64_t Interpreter::MaskKey() const {
  const bool is_dropout = shape_.op == OpCode::kDropoutAdd || shape_.op == OpCode::kDropoutForward;
  if (!is_dropout && !Has(kHasDropout)) return 0;
  return field::Hash({is_dropout ? shape_.index : std::uint64_t{0}, block_});
}

bool Interpreter::GemmForward() {
  const SymbolicValue* x = Tokens(0);
  if (x == nullptr) return false;
  const SymbolicValue* w = Weight(1);
  if (w == nullptr) return false;
  SymbolicValue y;
  const std::uint64_t v = Hash(kFirst, {x, w});
  if (w->axis == ShardAxis::kColumns) {
    if (!SameShard(0, *x, *w)) return false;
    y = Addend(v, PartialAxis::kFeatures, w->axis_index, w->axis_index + 1, w->axis_count);
  } else {
    if (Unsplit(0, x) == nullptr) return false;
    y = AsColumns(v, *w);
  }
  if (Has(kHasBias)) {
    const SymbolicValue* bias = Weight(2);
    if (bias == nullptr || !SameShard(2, AsColumns(0, *bias), AsColumns(0, y))) return false;
    y.v = field::Add(y.v, field::Hash({kBiasSalt, bias->v}));
  }
  return WriteTokens(0, y);
}

bool Interpreter::GemmDgrad() {
  const SymbolicValue* dy = Tokens(0);
  if (dy == nullptr) return false;
  const SymbolicValue* w = Weight(1);
  if (w == nullptr) return false;
  const std::uint64_t v = Hash(kFirst, {dy, w});
  if (w->axis == ShardAxis::kRows) {
    if (!SameShard(0, *dy, AsColumns(0, *w))) return false;
    return WriteTokens(
        0, Addend(v, PartialAxis::kFeatures, w->axis_index, w->axis_index + 1, w->axis_count));
  }
  return Unsplit(0, dy) != nullptr && WriteTokens(0, AsColumns(v, *w));
}

bool Interpreter::GemmWgrad() {
  const SymbolicValue* x = Tokens(0);
  if (x == nullptr) return false;
  const SymbolicValue* dy = Tokens(1);
  if (dy == nullptr) return false;
  if (x->axis != ShardAxis::kWhole && dy->axis != ShardAxis::kWhole) {
    return Fail(1, StrCat("reads ", DescribeShard(*dy), " beside ", DescribeShard(*x)));
  }
  SymbolicValue rows = *dy;
  if (rows.axis != ShardAxis::kWhole) rows.axis = ShardAxis::kRows;
  const SymbolicValue& shard = x->axis != ShardAxis::kWhole ? *x : rows;
  return WriteGradient(0, Hash(kFirst, {x, dy}), shard) &&
         (!Has(kHasBias) || WriteGradient(1, Hash(kSecond, {dy}), *dy));
}

bool Interpreter::NormForward() {
  const SymbolicValue* x = WholeTokens(0);
  const SymbolicValue* gamma = x == nullptr ? nullptr : WholeWeight(1);
  if (gamma == nullptr) return false;
  SymbolicValue y;
  y.v = Hash(kFirst, {x, gamma});
  if (!Has(kRmsNorm)) {
    const SymbolicValue* beta = WholeWeight(2);
    if (beta == nullptr) return false;
    y.v = field::Add(y.v, field::Hash({kBiasSalt, beta->v}));
  }
  return WriteTokens(0, y);
}

bool Interpreter::NormBackward() {
  const SymbolicValue* dy = WholeTokens(0);
  const SymbolicValue* x = dy == nullptr ? nullptr : WholeTokens(1);
  const SymbolicValue* gamma = x == nullptr ? nullptr : WholeWeight(2);
  if (gamma == nullptr) return false;
  SymbolicValue dx;
  dx.v = Hash(kFirst, {dy, x, gamma});
  if (Has(kHasResidual)) {
    const SymbolicValue* residual = WholeTokens(3);
    if (residual == nullptr) return false;
    dx.v = field::Add(dx.v, residual->v);
  }
  return WriteTokens(0, dx) && WriteGradient(1, Hash(kSecond, {dy, x}), {}) &&
         (Has(kRmsNorm) || WriteGradient(2, Hash(kThird, {dy}), {}));
}

// Queries of context-parallel rank `index` of `count` need the matching causal mask.
bool Interpreter::CheckQueryRows(std::size_t read) {
  if (Wide{range_.begin} * shape_.count == Wide{range_.total} * shape_.index &&
      Wide{range_.length} * shape_.count == Wide{range_.total}) {
    return true;
  }
  const SymbolicPiece rows{0, range_.length, range_.begin, range_.total, {}};
  return Fail(read, StrCat("reads queries of ", DescribeRange(rows), " with the mask of shard ",
                           shape_.index, " of ", shape_.count));
}

// Results along the queries' rows: `token_reads` inputs (the first is read 0) and keys and values.
bool Interpreter::Attention(std::size_t token_reads, std::size_t kv_read,
                            std::size_t token_writes) {
  std::uint64_t state =
      field::Hash({static_cast<std::uint64_t>(shape_.flags & kMeaning), MaskKey()});
  const SymbolicValue* first = nullptr;
  for (std::size_t i = 0; i < token_reads; ++i) {
    const SymbolicValue* value = Tokens(i);
    if (value == nullptr) return false;
    if (first == nullptr) first = value;
    if (!SameShard(i, *value, *first)) return false;
    state = field::Hash({state, value->v});
  }
  const bool masks =
      shape_.op == OpCode::kAttentionForward || shape_.op == OpCode::kAttentionScores;
  if (masks && !CheckQueryRows(0)) return false;
  if (kv_read != kNone) {
    const SymbolicValue* kv = Weight(kv_read);
    if (kv == nullptr || !SameShard(kv_read, *kv, *first)) return false;
    state = field::Hash({state, kv->v});
  }
  SymbolicValue value = *first;
  for (std::size_t i = 0; i < token_writes; ++i) {
    value.v = field::Hash({state, static_cast<std::uint64_t>(shape_.op), i});
    if (!WriteTokens(i, value)) return false;
  }
  return true;
}

// Each context-parallel rank's queries give one addend of the gradient of all keys and values.
bool Interpreter::WriteKvGradient(std::size_t write, std::uint64_t v, const SymbolicValue& shard) {
  SymbolicValue value =
      Addend(v, PartialAxis::kTokens, range_.begin, range_.begin + range_.length, range_.total);
  value.axis = shard.axis;
  value.axis_index = shard.axis_index;
  value.axis_count = shard.axis_count;
  return WriteWhole(write, value);
}

bool Interpreter::AttentionBackward() {
  constexpr std::array<std::size_t, 4> kTokenReads = {0, 1, 3, 4};  // do, q, o, lse
  const SymbolicValue* gradient = Tokens(0);
  if (gradient == nullptr) return false;
  std::uint64_t state =
      field::Hash({static_cast<std::uint64_t>(shape_.flags & kMeaning), MaskKey()});
  for (const std::size_t i : kTokenReads) {
    const SymbolicValue* value = Tokens(i);
    if (value == nullptr || !SameShard(i, *value, *gradient)) return false;
    state = field::Hash({state, value->v});
  }
  if (!CheckQueryRows(1)) return false;
  const SymbolicValue* kv = Weight(2);
  if (kv == nullptr || !SameShard(2, *kv, *gradient)) return false;
  state = field::Hash({state, kv->v, static_cast<std::uint64_t>(shape_.op)});
  SymbolicValue dq = *gradient;
  dq.v = field::Hash({state, kFirst});
  return WriteTokens(0, dq) && WriteKvGradient(1, field::Hash({state, kSecond}), *gradient);
}

bool Interpreter::AttentionContextBackward() {
  const SymbolicValue* gradient = Tokens(0);
  const SymbolicValue* probs = gradient == nullptr ? nullptr : Tokens(1);
  if (probs == nullptr || !SameShard(1, *probs, *gradient)) return false;
  const SymbolicValue* kv = Weight(2);
  if (kv == nullptr || !SameShard(2, *kv, *gradient)) return false;
  SymbolicValue dprobs = *gradient;
  dprobs.v = Hash(kFirst, {gradient, kv});
  return WriteTokens(0, dprobs) && WriteKvGradient(1, Hash(kSecond, {gradient, probs}), *gradient);
}

bool Interpreter::AttentionScoresBackward() {
  const SymbolicValue* dscores = Tokens(0);
  const SymbolicValue* q = dscores == nullptr ? nullptr : Tokens(1);
  if (q == nullptr || !SameShard(1, *q, *dscores)) return false;
  const SymbolicValue* kv = Weight(2);
  if (kv == nullptr || !SameShard(2, *kv, *dscores)) return false;
  const SymbolicPiece* half = Single(3, false);
  if (half == nullptr || !SameShard(3, half->value, *dscores)) return false;
  SymbolicValue dq = *dscores;
  dq.v = Hash(kFirst, {dscores, kv});
  if (!WriteTokens(0, dq) || !WriteKvGradient(1, Hash(kSecond, {dscores, q}), *dscores)) {
    return false;
  }
  // The two halves lie side by side; the sum of both, each complete or not in the same way, stands
  // for the pair.
  SymbolicValue& dkv = writes_[1].pieces.back().value;
  if (dkv.present != half->value.present) {
    return Fail(3,
                StrCat("reads ", DescribePartial(half->value), " beside ", DescribePartial(dkv)));
  }
  dkv.v = field::Add(dkv.v, half->value.v);
  return true;
}

bool Interpreter::Elementwise(std::size_t inputs) {
  const SymbolicValue* first = Tokens(0);
  if (first == nullptr) return false;
  std::uint64_t state =
      field::Hash({static_cast<std::uint64_t>(shape_.op),
                   static_cast<std::uint64_t>(shape_.flags & kMeaning), first->v, MaskKey()});
  for (std::size_t i = 1; i < inputs; ++i) {
    const SymbolicValue* value = Tokens(i);
    if (value == nullptr || !SameShard(i, *value, *first)) return false;
    state = field::Hash({state, value->v});
  }
  SymbolicValue out = *first;
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    out.v = field::Hash({state, i});
    if (!WriteTokens(i, out)) return false;
  }
  return true;
}

bool Interpreter::AddOrDropoutAdd() {
  if (shape_.op == OpCode::kAdd && !Has(kHasBias)) {
    if (reads_.size() < 2) return Fail(reads_.size(), "is missing");
    if (writes_.empty()) return Fail(reads_.size(), "is missing");
    if (reads_[0].pieces.empty()) return Fail(0, DescribePieces(reads_[0]));
    return SumSymbolic(reads_.first(2), writes_[0], fault_);
  }
  const SymbolicValue* a = Tokens(0);
  const SymbolicValue* b = a == nullptr ? nullptr : Tokens(1);
  if (b == nullptr || !SameShard(1, *b, *a)) return false;
  std::uint64_t biased = a->v;
  if (Has(kHasBias)) {
    const SymbolicValue* bias = Weight(2);
    if (bias == nullptr || !SameShard(2, AsColumns(0, *bias), AsColumns(0, *a))) return false;
    biased = field::Add(biased, field::Hash({kBiasSalt, bias->v}));
  }
  SymbolicValue y = *a;
  if (shape_.op == OpCode::kAdd) {
    y.v = field::Add(biased, b->v);
    return WriteTokens(0, y);
  }
  const std::uint64_t dropped =
      field::Hash({static_cast<std::uint64_t>(OpCode::kDropoutAdd), kFirst, biased, MaskKey()});
  y.v = field::Add(dropped, b->v);
  SymbolicValue mask = *a;
  mask.v =
      field::Hash({static_cast<std::uint64_t>(OpCode::kDropoutAdd), kSecond, biased, MaskKey()});
  return WriteTokens(0, y) && WriteTokens(1, mask);
}

bool Interpreter::EmbeddingForward() {
  const SymbolicValue* tokens = WholeTokens(0);
  const SymbolicValue* table = tokens == nullptr ? nullptr : Weight(1);
  if (table == nullptr) return false;
  SymbolicValue shard;
  if (shape_.count > 1) {
    shard.axis = ShardAxis::kRows;
    shard.axis_index = shape_.index;
    shard.axis_count = shape_.count;
  }
  if (!SameShard(1, *table, shard)) return false;
  SymbolicValue x = Addend(Hash(kFirst, {tokens, table}), PartialAxis::kFeatures, shape_.index,
                           shape_.index + 1, shape_.count);
  if (Has(kHasPositions)) {
    const SymbolicValue* positions = WholeWeight(2);
    if (positions == nullptr) return false;
    if (shape_.index == 0) x.v = field::Add(x.v, field::Hash({kPositionSalt, positions->v}));
  }
  return WriteTokens(0, x);
}

bool Interpreter::EmbeddingBackward() {
  const SymbolicValue* tokens = WholeTokens(0);
  const SymbolicValue* dx = tokens == nullptr ? nullptr : WholeTokens(1);
  if (dx == nullptr) return false;
  SymbolicValue shard;
  if (shape_.count > 1) {
    shard.axis = ShardAxis::kRows;
    shard.axis_index = shape_.index;
    shard.axis_count = shape_.count;
  }
  return WriteGradient(0, Hash(kFirst, {tokens, dx}), shard) &&
         (!Has(kHasPositions) || WriteGradient(1, Hash(kSecond, {dx}), {}));
}

bool Interpreter::CrossEntropyStats() {
  const SymbolicValue* logits = Tokens(0);
  const SymbolicValue* labels = logits == nullptr ? nullptr : WholeTokens(1);
  if (labels == nullptr) return false;
  SymbolicValue stats = *logits;
  stats.v = Hash(kFirst, {logits, labels});
  return WriteTokens(0, stats);
}

bool Interpreter::CrossEntropyLoss() {
  if (reads_.empty()) return Fail(0, "is missing");
  const SymbolicOperand& stats = reads_[0];
  const auto shards = static_cast<std::int64_t>(shape_.count);
  SymbolicValue logical;
  std::int64_t end = 0;
  for (const SymbolicPiece& piece : stats.pieces) {
    const SymbolicValue& value = piece.value;
    const auto index = static_cast<std::int64_t>(&piece - stats.pieces.data());
    const bool right_shard = shards == 1
                                 ? value.axis == ShardAxis::kWhole
                                 : value.axis == ShardAxis::kColumns && value.axis_index == index &&
                                       value.axis_count == shards;
    if (!right_shard || piece.offset != end || value.partial != PartialAxis::kComplete) {
      return Fail(0, StrCat("holds ", DescribeShard(value), " where shard ", index, " of ", shards,
                            " of the vocabulary is needed"));
    }
    if (index == 0) {
      logical = value;
      range_ = {piece.begin, piece.bytes, piece.total};
    } else if (value.v != logical.v || !range_.Matches(piece)) {
      return Fail(0, StrCat("holds shards 0 and ", index, " of different logits"));
    }
    end = piece.end_offset();
  }
  if (static_cast<std::int64_t>(stats.pieces.size()) != shards || end != stats.bytes) {
    return Fail(0, StrCat("holds ", stats.pieces.size(), " shards where ", shards,
                          " of the vocabulary are needed"));
  }
  SymbolicValue loss = Addend(Hash(kFirst, {&logical}), PartialAxis::kTokens, range_.begin,
                              range_.begin + range_.length, range_.total);
  SymbolicValue global_stats;
  global_stats.v = Hash(kSecond, {&logical});
  return WriteWhole(0, loss) && WriteTokens(1, global_stats);
}

bool Interpreter::CrossEntropyBackward() {
  const SymbolicValue* logits = Tokens(0);
  const SymbolicValue* labels = logits == nullptr ? nullptr : WholeTokens(1);
  const SymbolicValue* stats = labels == nullptr ? nullptr : WholeTokens(2);
  if (stats == nullptr) return false;
  SymbolicValue dlogits = *logits;
  dlogits.v = Hash(kFirst, {logits, labels, stats});
  return WriteTokens(0, dlogits);
}

// Where two piece lists stop holding the same ranges of the same shards: index of the first pair
// that differs; kNone where they agree.
std::size_t FirstMismatch(const SymbolicPieces& a, const SymbolicPieces& b) {
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (a[i].offset != b[i].offset || a[i].bytes != b[i].bytes || a[i].begin != b[i].begin ||
        a[i].total != b[i].total || !a[i].value.SameShard(b[i].value)) {
      return i;
    }
  }
  return a.size() == b.size() ? kNone : common;
}

// "nothing at byte 512" or "shard 0 of 2 of row shard 1 of 2 at byte 512".
std::string DescribePiece(const SymbolicPieces& pieces, std::size_t index) {
  if (index >= pieces.size()) return "nothing more";
  const SymbolicPiece& piece = pieces[index];
  return StrCat(DescribeRange(piece), " of ", DescribeShard(piece.value), " at byte ",
                piece.offset);
}

bool Interpreter::Adam() {
  // Reads in the order gradient, m, v, then the weight that is updated.
  const bool in_place = Has(kMasterIsParameter);
  const std::array<std::size_t, 4> order =
      in_place ? std::array<std::size_t, 4>{0, 1, 2, 3} : std::array<std::size_t, 4>{0, 2, 3, 1};
  if (reads_.size() < (Has(kHasClip) ? 5u : 4u)) return Fail(reads_.size(), "is missing");
  if (writes_.size() < (in_place ? 3u : 4u))
    return Fail(reads_.size() + writes_.size(), "is missing");
  const SymbolicOperand& weight = reads_[order[3]];
  std::array<SymbolicPieces, 3> scaled;
  for (std::size_t i = 0; i < 3; ++i) {
    const SymbolicOperand& operand = reads_[order[i]];
    scaled[i] = operand.pieces;
    if (!Rescale(scaled[i], operand.bytes, weight.bytes)) {
      return Fail(order[i],
                  StrCat("has ", operand.bytes, " bytes beside weights of ", weight.bytes));
    }
    const std::size_t mismatch = FirstMismatch(scaled[i], weight.pieces);
    if (mismatch != kNone) {
      return Fail(order[i], StrCat("holds ", DescribePiece(scaled[i], mismatch),
                                   " (in bytes of the weights), the weights hold ",
                                   DescribePiece(weight.pieces, mismatch)));
    }
  }
  std::uint64_t clip = 0;
  if (Has(kHasClip)) {
    const SymbolicPiece* coefficient = Single(4);
    if (coefficient == nullptr) return false;
    clip = coefficient->value.v;
  }
  std::array<SymbolicPieces, 3> updated;  // m, v, weight
  for (std::size_t i = 0; i < weight.pieces.size(); ++i) {
    const SymbolicValue& gradient = scaled[0][i].value;
    if (gradient.partial != PartialAxis::kComplete) {
      return Fail(0, StrCat("reads ", DescribePartial(gradient), " of the gradient at byte ",
                            reads_[0].pieces[i].offset, " where the complete sum is needed"));
    }
    SymbolicPiece piece = weight.pieces[i];
    const std::uint64_t state = field::Hash(
        {static_cast<std::uint64_t>(OpCode::kAdam), gradient.v, scaled[1][i].value.v,
         scaled[2][i].value.v, piece.value.v, static_cast<std::uint64_t>(Has(kHasClip)), clip});
    for (std::size_t k = 0; k < 3; ++k) {
      piece.value.v = field::Hash({state, k});
      updated[k].push_back(piece);
    }
  }
  const auto write = [&](std::size_t at, const SymbolicPieces& pieces) {
    writes_[at].pieces = pieces;
    return Rescale(writes_[at].pieces, weight.bytes, writes_[at].bytes) ||
           Fail(reads_.size() + at, "differs from the weights by more than its element type");
  };
  if (in_place) return write(0, updated[0]) && write(1, updated[1]) && write(2, updated[2]);
  return write(0, updated[2]) && write(1, updated[0]) && write(2, updated[1]) &&
         write(3, updated[2]);
}

// The squared norm of a tensor is a contraction over all its elements, so each range gives an
// addend, which must be counted once over all ranks.
bool Interpreter::GradNorm() {
  if (reads_.empty()) return Fail(0, "is missing");
  const SymbolicOperand& gradient = reads_[0];
  const std::int64_t elements = shape_.dims[0];
  const std::int64_t shard_elements = shape_.count > 0 ? elements / shape_.count : 0;
  if (shard_elements <= 0 || gradient.bytes % shard_elements != 0) {
    return Fail(0, StrCat("of ", gradient.bytes, " bytes is not shard ", shape_.index, " of ",
                          shape_.count, " of ", elements, " elements"));
  }
  const std::int64_t element_bytes = gradient.bytes / shard_elements;
  const std::int64_t origin = shape_.index * shard_elements * element_bytes;
  const std::int64_t counted_begin = shape_.dims[1] * element_bytes - origin;
  const std::int64_t counted_end = shape_.dims[2] * element_bytes - origin;
  SymbolicValue norm;
  norm.v = 0;
  for (const SymbolicPiece& piece : gradient.pieces) {
    const std::int64_t begin = std::max(piece.offset, counted_begin);
    const std::int64_t end = std::min(piece.end_offset(), counted_end);
    if (begin >= end) continue;
    if (piece.value.partial != PartialAxis::kComplete) {
      return Fail(0, StrCat("reads ", DescribePartial(piece.value), " of the gradient at byte ",
                            piece.offset, " where the complete sum is needed"));
    }
    const std::int64_t shard_origin = piece.value.axis_index * piece.total;
    const std::int64_t at = shard_origin + piece.begin - piece.offset;
    norm.v = field::Add(norm.v,
                        Telescope(field::Hash({kNormSalt, piece.value.v}), PartialAxis::kFeatures,
                                  at + begin, at + end, piece.value.axis_count * piece.total));
  }
  if (Has(kAccumulateGradient)) {
    const SymbolicPiece* sum = Single(1);
    if (sum == nullptr) return false;
    norm.v = field::Add(norm.v, sum->value.v);
  }
  return WriteWhole(0, norm);
}

bool Interpreter::ClipCoefficient() {
  const SymbolicPiece* norm = Single(0);
  if (norm == nullptr) return false;
  SymbolicValue coefficient;
  coefficient.v = Hash(kFirst, {&norm->value});
  return WriteWhole(0, coefficient);
}

bool Interpreter::Run() {
  switch (shape_.op) {
    case OpCode::kGemmForward:
      return GemmForward();
    case OpCode::kGemmDgrad:
      return GemmDgrad();
    case OpCode::kGemmWgrad:
      return GemmWgrad();
    case OpCode::kNormForward:
      return NormForward();
    case OpCode::kNormBackward:
      return NormBackward();
    case OpCode::kSplitQkv:
    case OpCode::kActivationForward:
    case OpCode::kSiluForward:
    case OpCode::kDropoutForward:
      return Elementwise(1);
    case OpCode::kSplitQkvBackward:
    case OpCode::kActivationBackward:
    case OpCode::kMulForward:
    case OpCode::kDropoutBackward:
      return Elementwise(2);
    case OpCode::kSiluBackward:
    case OpCode::kMulBackward:
      return Elementwise(3);
    case OpCode::kAttentionForward:
      return Attention(1, 1, 2);
    case OpCode::kAttentionScores:
    case OpCode::kAttentionContext:
      return Attention(1, 1, 1);
    case OpCode::kSoftmaxForward:
      return Attention(1, kNone, 1);
    case OpCode::kSoftmaxBackward:
      return Attention(2, kNone, 1);
    case OpCode::kAttentionBackward:
      return AttentionBackward();
    case OpCode::kAttentionContextBackward:
      return AttentionContextBackward();
    case OpCode::kAttentionScoresBackward:
      return AttentionScoresBackward();
    case OpCode::kAdd:
    case OpCode::kDropoutAdd:
      return AddOrDropoutAdd();
    case OpCode::kAccumulate:
      if (reads_.size() < 2) return Fail(reads_.size(), "is missing");
      if (writes_.empty()) return Fail(reads_.size(), "is missing");
      return SumSymbolic(reads_.first(2), writes_[0], fault_);
    case OpCode::kEmbeddingForward:
      return EmbeddingForward();
    case OpCode::kEmbeddingBackward:
      return EmbeddingBackward();
    case OpCode::kCrossEntropyStats:
      return CrossEntropyStats();
    case OpCode::kCrossEntropyLoss:
      return CrossEntropyLoss();
    case OpCode::kCrossEntropyBackward:
      return CrossEntropyBackward();
    case OpCode::kAdam:
      return Adam();
    case OpCode::kGradNorm:
      return GradNorm();
    case OpCode::kClipCoefficient:
      return ClipCoefficient();
    case OpCode::kCopyOnDevice:
    case OpCode::kCopyH2D:
    case OpCode::kCopyD2H:
    case OpCode::kSend:
    case OpCode::kRecv:
    case OpCode::kAllReduce:
    case OpCode::kAllGather:
    case OpCode::kReduceScatter:
    case OpCode::kRingShift:
      break;
  }
  return Fail(kNone, "is no compute operation");
}

}  // namespace

std::size_t FirstGradient(const OpShape& shape) {
  switch (shape.op) {
    case OpCode::kGemmWgrad:
    case OpCode::kEmbeddingBackward:
      return 0;
    case OpCode::kNormBackward:
      return 1;
    default:
      return kNone;
  }
}

std::size_t PreviousGradient(const OpShape& shape, std::size_t write) {
  const auto has = [&shape](OpFlags flag) { return (shape.flags & flag) != 0; };
  const std::size_t first = FirstGradient(shape);
  if (first == kNone || write < first) return kNone;
  const bool positions = shape.op == OpCode::kEmbeddingBackward && write == 1;
  if (!has(positions ? kAccumulatePositions : kAccumulateGradient)) return kNone;
  if (shape.op == OpCode::kNormBackward) return (has(kHasResidual) ? 4 : 3) + write - first;
  if (positions) return has(kAccumulateGradient) ? 3 : 2;
  return 2 + write;
}

bool SumSymbolic(std::span<const SymbolicOperand> parts, SymbolicOperand& out,
                 SymbolicFault& fault) {
  out.pieces = parts[0].pieces;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const SymbolicPieces* addends = &parts[i].pieces;
    SymbolicPieces scaled;
    if (parts[i].bytes != parts[0].bytes) {
      scaled = parts[i].pieces;
      if (!Rescale(scaled, parts[i].bytes, parts[0].bytes)) scaled.clear();
      addends = &scaled;
    }
    const std::size_t mismatch = FirstMismatch(*addends, out.pieces);
    if (mismatch != kNone) {
      fault = {static_cast<std::uint32_t>(i),
               StrCat("holds ", DescribePiece(*addends, mismatch), " and is added to ",
                      DescribePiece(out.pieces, mismatch))};
      return false;
    }
    for (std::size_t k = 0; k < out.pieces.size(); ++k) {
      AddTo(out.pieces[k].value, (*addends)[k].value);
    }
  }
  if (!Rescale(out.pieces, parts[0].bytes, out.bytes)) {
    fault = {kNone, StrCat("sums ", parts[0].bytes, " bytes into ", out.bytes)};
    return false;
  }
  return true;
}

bool ApplySymbolic(const OpShape& shape, std::uint16_t block,
                   std::span<const SymbolicOperand> reads, std::span<SymbolicOperand> writes,
                   SymbolicFault& fault) {
  return Interpreter(shape, block, reads, writes, fault).Run();
}

}  // namespace twinstep
