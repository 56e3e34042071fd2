#!/usr/bin/env bash
# The programs that measure on a GPU, tried without one, so that they don't fail where time is dear:
# several_gpus.py only predicts and trains tiny plans on the CPU, validate_report.py profiles and
# validates one there, run_on_gpu.sh says what it lacks.
set -euo pipefail

binary=$PWD/twinstep
here=$PWD/tests/exec/cuda
out=$(mktemp -d "${TEST_TMPDIR:-/tmp}/reports.XXXXXX")
trap 'rm -rf "$out"' EXIT

# check WHAT COUNT PATTERN: so many lines of its output match.
check() {
  local lines
  lines=$(grep -cE "$3" "$out/$1.log" || true)
  [ "$lines" -eq "$2" ] && return
  cat "$out/$1.log"
  echo "$1: $lines lines match '$3', not $2"
  exit 1
}

for gpus in 4 8; do
  python3 "$here/several_gpus.py" "$binary" "$out/several$gpus" --gpus $gpus --backend none \
    >"$out/predicted$gpus.log" 2>&1
  # Rows are printed once as they come, and once more in the table.
  sed -i -n '/^Table/,$p' "$out/predicted$gpus.log"
  check predicted$gpus 15 '^plans +llama-6.7b: .* [0-9,]+ +[0-9.]+ +compute [0-9]+'
  check predicted$gpus 11 '^adaptive +llama-6.7b: '
done
check predicted4 3 '^scaling +llama-13b: '
check predicted8 4 '^scaling +llama-13b: '

python3 "$here/several_gpus.py" "$binary" "$out/losses" --gpus 2 --backend cpu --parts losses \
  >"$out/losses.log" 2>&1
sed -i -n '/^Table/,$p' "$out/losses.log"
check losses 14 '^losses .* losses within [0-9.]+e[-+][0-9]+$'

python3 "$here/validate_report.py" "$binary" "$out/validate" --gpus 2 --backend cpu --tiny --rows 3,9 \
  --steps 3 --profile-seconds 0.5 >"$out/validate.log" 2>&1
sed -i -n '/^ms predicted/,$p' "$out/validate.log"
check validate 2 '^llama-1.3b .* compute [-+][0-9.]+ %'
check validate 1 '^2 rows: iteration median '

if BIN=$out/nothing "$here/run_on_gpu.sh" two >"$out/run.log" 2>&1; then
  echo "run_on_gpu.sh: succeeded with nothing built"
  exit 1
fi
check run 1 '^run_on_gpu.sh: no '
