#include "exec/cpu/group_operations.h"

#include <algorithm>
#include <cstring>

#include "exec/cpu/kernel.h"

namespace twinstep {
namespace {

// Sums are made block by block on the stack: members' operands may overlap their results, and a
// block stays in the cache while it is copied to every member.
constexpr std::size_t kBlockBytes = 16384;

void Copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from) std::memcpy(to, from, bytes);
}

// Sums bytes [begin, end) of all reads and hands each block to `store`.
template <typename Store>
void SumRange(const OpShape& shape, std::size_t begin, std::size_t end,
              std::span<const MemberBuffers> members, std::vector<const std::byte*>* parts,
              Store store) {
  alignas(64) std::byte block[kBlockBytes];
  for (std::size_t at = begin; at < end; at += kBlockBytes) {
    const std::size_t bytes = std::min(kBlockBytes, end - at);
    parts->clear();
    for (const MemberBuffers& member : members) parts->push_back(member.read + at);
    SumInOrder(shape.dtype, (shape.flags & kExactSum) != 0, *parts, bytes, block);
    store(at, bytes, block);
  }
}

}  // namespace

void RunGroupOperation(const OpShape& shape, std::int64_t bytes,
                       std::span<const MemberBuffers> members,
                       std::vector<const std::byte*>* parts) {
  const auto whole = static_cast<std::size_t>(bytes);
  const std::size_t count = members.size();
  const std::size_t shard = whole / count;
  switch (shape.op) {
    case OpCode::kAllReduce:
      SumRange(shape, 0, whole, members, parts,
               [members](std::size_t at, std::size_t size, const std::byte* block) {
                 for (const MemberBuffers& member : members) {
                   std::memcpy(member.write + at, block, size);
                 }
               });
      break;
    case OpCode::kReduceScatter:
      for (std::size_t i = 0; i < count; ++i) {
        std::byte* const target = members[i].write;
        SumRange(
            shape, i * shard, (i + 1) * shard, members, parts,
            [target, begin = i * shard](std::size_t at, std::size_t size, const std::byte* block) {
              std::memcpy(target + (at - begin), block, size);
            });
      }
      break;
    case OpCode::kAllGather:
      for (const MemberBuffers& to : members) {
        for (std::size_t i = 0; i < count; ++i) Copy(to.write + i * shard, members[i].read, shard);
      }
      break;
    case OpCode::kRingShift:
      for (std::size_t i = 0; i < count; ++i) {
        Copy(members[i].write, members[(i + count - 1) % count].read, whole);
      }
      break;
    default:  // SEND and RECV.
      for (const MemberBuffers& from : members) {
        if (from.read == nullptr) continue;
        for (const MemberBuffers& to : members) {
          if (to.write != nullptr) Copy(to.write, from.read, whole);
        }
      }
  }
}

}  // namespace twinstep
