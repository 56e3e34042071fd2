#!/usr/bin/env bash
# Everything that is tested and measured on a GPU, in one call; a short table comes last.
#
#   bazel build --define simgrid=off //:twinstep //tests/exec/cuda/...
#   tests/exec/cuda/run_on_gpu.sh [STEP ...]
#
# Steps: operators training resume bench pytorch sanitizer (default: all but the last). Binaries are
# taken from bazel-bin, or from the folder BIN; full output goes to the folder OUT (default: a new
# one). Where PyTorch is installed, its CUDA libraries serve if there are no others.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=${BIN:-$here/../../../bazel-bin}
out=${OUT:-$(mktemp -d)}
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(operators training resume bench pytorch)

libraries=/usr/local/cuda/lib64
for folder in $(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null); do
  for lib in "$folder"/*/lib; do [ -d "$lib" ] && libraries=$lib:$libraries; done
done
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

table=()
note() { table+=("$*"); }
find_binary() {
  for path in "$bin/$1" "$bin/tests/exec/cuda/$1" "$bin/tests/exec/cuda/kernels/$1"; do
    [ -x "$path" ] && { echo "$path"; return; }
  done
  echo "$bin/$1"
}

run_test() {
  local log=$out/$1.log begin=$SECONDS
  if "$(find_binary "$1")" --gtest_brief=1 >"$log" 2>&1; then
    note "$1: passed, $((SECONDS - begin)) s: $(tail -1 "$log")"
  else
    note "$1: FAILED, $((SECONDS - begin)) s: $(grep -c 'Failure' "$log") failures"
    head -c 6000 "$log"
    grep FAILED "$log" | tail -12
  fi
}

model_1b='name: "llama-1.3b" family: LLAMA layers: 24 hidden_size: 2048 ffn_hidden_size: 5504
attention_heads: 16 vocab_size: 32000 max_sequence_length: 1024'
model_7b='name: "llama-6.7b" family: LLAMA layers: 32 hidden_size: 4096 ffn_hidden_size: 11008
attention_heads: 32 vocab_size: 32000 max_sequence_length: 1024'
echo "$model_1b" >"$out/1b.textproto"
echo "$model_7b" >"$out/7b.textproto"

bench() {  # MODEL MICRO_BATCH GLOBAL_BATCH STEPS [PLAN]
  local log=$out/bench_$1_$2${5:+_chunks}.log
  "$(find_binary training_benchmark)" "$out/$1.textproto" "$2" "$3" 1024 "$4" "${5:-}" >"$log" 2>&1
  cat "$log"
  note "$(grep '^TOTAL' "$log" || tail -1 "$log")"
  note "  $(grep '^recording' "$log"); $(grep '^iteration' "$log")"
}

train() {
  "$(find_binary twinstep)" train --backend cuda --model tiny-llama --data "$here/run_on_gpu.sh" \
    --steps 300 --lr 5e-3 --seq 128 --global-batch 8 --micro-batch 4 "$@"
}

for step in "${steps[@]}"; do
  case $step in
    operators) run_test library_operators_test; run_test kernels_test ;;
    training) run_test training_test ;;
    resume)
      train --log "$out/plain.jsonl" >"$out/plain.log" 2>&1
      note "300 steps of tiny-llama: $(grep '^step 1 ' "$out/plain.log"), $(grep '^step 300' "$out/plain.log")"
      train --deterministic >"$out/whole.log" 2>&1
      train --deterministic --save "$out/saved" --save-every 100 >/dev/null 2>&1
      rm -f "$out"/saved/*300*
      train --deterministic --save "$out/saved" --resume "$out/saved" >"$out/resumed.log" 2>&1
      last() { grep '^step 300' "$1" | cut -d' ' -f1-6; }
      if [ -n "$(last "$out/whole.log")" ] &&
        [ "$(last "$out/whole.log")" = "$(last "$out/resumed.log")" ]; then
        note "resume: the same $(last "$out/whole.log")"
      else
        note "resume: FAILED: '$(last "$out/whole.log")', resumed '$(last "$out/resumed.log")' $(tail -1 "$out/resumed.log")"
      fi
      train --trace "$out/tiny.json" >"$out/trace.log" 2>&1
      note "trace: $(wc -c <"$out/tiny.json") bytes; $(tail -1 "$out/trace.log")"
      ;;
    bench)
      bench 1b 32 32 8
      bench 1b 8 8 16
      bench 1b 32 32 4 'persistent_chunks: 4 chunk_buffers: 3 checkpointed_blocks: 20'
      bench 7b 4 32 3
      bench 7b 32 32 3 'persistent_chunks: 6 chunk_buffers: 4 checkpointed_blocks: 32'
      ;;
    pytorch)
      for batch in 32 8; do
        note "PyTorch eager 1.345B mb $batch (s, tokens/s, GiB): $(python3 \
          "$here/pytorch_baseline.py" 2048 24 5504 16 32000 1024 $batch 2>"$out/pytorch.log" ||
          tail -1 "$out/pytorch.log")"
      done
      ;;
    sanitizer)
      for tool in memcheck racecheck; do
        compute-sanitizer --tool $tool --error-exitcode 9 "$(find_binary training_test)" \
          --gtest_filter='*PlansOfSeveral*:*Dropout*' >"$out/$tool.log" 2>&1
        note "compute-sanitizer $tool: exit $?, $(tail -1 "$out/$tool.log")"
      done
      ;;
    *)
      echo "run_on_gpu.sh: no step '$step'" >&2
      exit 2
      ;;
  esac
done

echo "----"
printf '%s\n' "${table[@]}"
