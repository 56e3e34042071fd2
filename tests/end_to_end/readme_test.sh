#!/usr/bin/env bash
# readme_test.sh FILE: runs every block of a README that opens with ```sh run, in order and in one
# directory with nothing in it but the README's own folder, each of which must exit with 0. Setting up
# and building is what this test already stands on: there ./setup.sh does nothing and
# `bazel run //:twinstep -- ARGUMENTS` runs the binary that was built.
# A block that opens with ```sh run=N must exit with N.
# The next block that opens with ```text shows what it prints: each line must be one of the output's, however
# far indented, but those that stand for lines left out (beginning with "..."). Where times are measured,
# and so differ, the block opens with ```text example.
set -euo pipefail

name=$1
readme=$PWD/$name
binary=$PWD/twinstep
scratch=$(mktemp -d "${TEST_TMPDIR:-/tmp}/readme.XXXXXX")
mkdir -p "$scratch/bin" "$scratch/blocks" "$scratch/tree"

cat >"$scratch/bin/bazel" <<STUB
#!/usr/bin/env bash
if [ "\$1 \$2 \$3" != "run //:twinstep --" ]; then
  echo "README test: expected 'bazel run //:twinstep -- ...', not 'bazel \$*'" >&2
  exit 99
fi
shift 3
exec "$binary" "\$@"
STUB
printf '#!/bin/sh\n' >"$scratch/tree/setup.sh"
folder=$(dirname "$name")
if [ "$folder" != . ]; then
  mkdir -p "$scratch/tree/$folder"
  cp -L "$folder"/* "$scratch/tree/$folder"
fi
ln -s "$binary" "$scratch/bin/twinstep"
chmod +x "$scratch/bin/bazel" "$scratch/tree/setup.sh"
export PATH="$scratch/bin:$PATH"

# One file a block, named by its order, expected exit status and line; FILE.text holds what it prints.
awk -v out="$scratch/blocks" '
  /^```/ && inside { inside = 0; close(file); next }
  /^```text$/ && block != "" {
    file = block ".text"
    block = ""
    inside = 1
    next
  }
  /^```sh$/ { block = "" }
  /^```sh run(=[0-9]+)?$/ {
    status = 0
    if (match($0, /[0-9]+$/)) status = substr($0, RSTART)
    file = sprintf("%s/%03d.%d.%d", out, ++count, status, NR)
    block = file
    inside = 1
    printf "" > file
    next
  }
  inside { print > file }
' "$readme"

# Prints the lines of the file that are not among the output's.
missing_lines() {
  awk -v output="$scratch/output" '
    function trimmed(line) { sub(/^ +/, "", line); return line }
    BEGIN { while ((getline line < output) > 0) printed[trimmed(line)] = 1 }
    !/^ *\.\.\./ && !(trimmed($0) in printed)
  ' "$1"
}

count=0
stale=0
for block in "$scratch"/blocks/*[0-9]; do
  [ -s "$block" ] || { echo "$name holds no block to run" >&2; exit 1; }
  file=${block##*/}
  line=${file##*.}
  expected=${file#*.}
  expected=${expected%.*}
  status=0
  (cd "$scratch/tree" && bash -euo pipefail "$block") >"$scratch/output" 2>&1 || status=$?
  if [ "$status" -ne "$expected" ]; then
    echo "$name:$line exits with $status, not $expected:" >&2
    cat "$block" "$scratch/output" >&2
    exit 1
  fi
  count=$((count + 1))
  if [ -e "$block.text" ] && [ -n "$(missing_lines "$block.text")" ]; then
    echo "$name:$line does not print these lines, which the README shows:" >&2
    missing_lines "$block.text" >&2
    echo "It prints:" >&2
    cat "$scratch/output" >&2
    stale=$((stale + 1))
  fi
done
[ "$stale" -eq 0 ] || exit 1
echo "$count blocks of $name ran"
