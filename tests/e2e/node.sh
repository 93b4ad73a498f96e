#!/bin/sh
# The machine as the node of a bed sees it, for programs that join this one's mount namespace.
#
#     node.sh FOLDER
#
# Whatever a node's programs write below /run, /var/lib and /var/log goes to FOLDER, which is in memory;
# /dev is a copy whose loop devices are root:disk 0660, as udev makes them on a node; what a kubelet sets for
# the whole kernel goes to files. Nothing of the real machine changes, and all of it ends with the last process
# in here. Up to LOOPS loop devices can be in use on the machine at once.
set -eu
own=$1
LOOPS=128
LOOP_MAJOR=7

for folder in /run /var/lib /var/log; do
  mkdir -p "$own$folder/upper" "$own$folder/work"
  mount -t overlay -o "lowerdir=$folder,upperdir=$own$folder/upper,workdir=$own$folder/work" node "$folder"
done

# In an overlay a file is on another device than its folder: drivers take it for a mount point, and mount nothing.
mkdir -p "$own/kubelet" /var/lib/kubelet
mount --bind "$own/kubelet" /var/lib/kubelet

mkdir "$own/dev"
mount -t tmpfs -o mode=755 node "$own/dev"
cp -a --one-file-system /dev/. "$own/dev"
rm -f "$own"/dev/loop[0-9]*
number=0
while [ "$number" -lt "$LOOPS" ]; do
  mknod --mode=0660 "$own/dev/loop$number" b "$LOOP_MAJOR" "$number"
  number=$((number + 1))
done
chown root:disk "$own"/dev/loop[0-9]*
for folder in pts shm mqueue; do
  if mountpoint -q "/dev/$folder"; then
    mount --bind "/dev/$folder" "$own/dev/$folder"
  fi
done
mount --move "$own/dev" /dev

mkdir "$own/sysctl"
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
  kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  file="$own/sysctl/$(echo "$name" | tr / .)"
  cat "/proc/sys/$name" >"$file"
  mount --bind "$file" "/proc/sys/$name"
done

mount --make-rshared /
: >/run/bed-node
exec sleep infinity
