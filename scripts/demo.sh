#!/bin/bash
# ./dev demo: a volume backed up in full and by its changes, restored, and checked by restic.
#
#     demo.sh PROGRAM
#
# The volume is an image file with a real ext4 file system; neither cluster nor root is needed. Prints what a person
# would type and what the programs answer. Fails if a byte is not what it was.
set -euo pipefail

program=$(realpath "$1")
if [ ! -x "$program" ]; then
  echo "demo: no $program: ./dev build makes it" >&2
  exit 1
fi
folder=$(mktemp -d -t csi-delta-demo-XXXXXX)
trap '[ $? -eq 0 ] || echo "demo: what is above failed, or printed something wrong" >&2; rm -rf "$folder"' EXIT
cd "$folder"
export PATH="${program%/*}:/usr/sbin:/sbin:$PATH" LC_ALL=C RESTIC_REPOSITORY=$folder/repository RESTIC_PASSWORD=demo

say() {
  printf '\n%s\n' "$*"
}

run() {
  say "\$ $*"
  "$@" 2>&1
}

echo "A volume: 512 MiB with an ext4 file system, and in it 96 MiB of photos."
mkdir -p tree/photos tree/letters
for number in {00..47}; do head -c 2M /dev/urandom >"tree/photos/$number.jpg"; done
echo "Dear reader," >tree/letters/first.txt
run mke2fs -q -F -t ext4 -d tree volume.img 512M
run csi-delta init
run csi-delta backup volume.img

cp --sparse=always volume.img before.img
letter="this line was written between the first backup and the second"
printf '%s\n' "Dear reader," "$letter." >second.txt
head -c 2M /dev/urandom >new.jpg
say '$ debugfs -w volume.img    # a new letter, one photo less, another replaced'
printf '%s\n' "rm photos/07.jpg" "rm photos/08.jpg" "write new.jpg photos/08.jpg" "write second.txt letters/second.txt" |
  debugfs -w -f - volume.img >debugfs.log 2>&1

id=$(csi-delta snapshots --latest 1 --output id)
echo "{\"base\":\"$id\"}" >changed.jsonl
{ cmp -l before.img volume.img || true; } |
  awk '{ at = int(($1 - 1) / 4096) * 4096 } at != last { print at } { last = at }' >changed
sed 's/.*/{"offset":&,"length":4096}/' changed >>changed.jsonl
echo '{"end":true}' >>changed.jsonl
say "A storage system that tracks changed blocks would list them; here both states are compared:" \
  "$(wc -l <changed) blocks differ."
run csi-delta backup volume.img --extents changed.jsonl
run csi-delta snapshots

say "The target is full of other bytes: 512 MiB of 0xA5."
head -c 512M /dev/zero | tr '\0' '\245' >restored.img
run csi-delta restore latest --target restored.img
run cmp volume.img restored.img
say "Both images have the same bytes."
run e2fsck -f -n restored.img
run debugfs -R "cat letters/second.txt" restored.img | tee letter.txt
grep -q "$letter" letter.txt

say "The check, by stock restic:"
run restic --no-cache check --read-data
say '$ restic --no-cache dump latest /image | tar -xOf - | cmp - volume.img'
restic --no-cache dump latest /image | tar -xOf - | cmp - volume.img
say "Without csi-delta at all, restic reads the volume's bytes."
say "Done in $SECONDS s; nothing of it is left."
