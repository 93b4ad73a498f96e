#!/bin/sh
# Has clang-tidy judge what ccache would have compiled, so that ccache keeps the result: CCACHE_PREFIX of ./dev lint.
# Its words are the compiler's. The object is a blank line; the compiler itself only lists what the source includes.
set -eu
case " $* " in *" -emit-pch "*) exec "$@" ;; esac
compiler=$1
shift
for word; do
  case ${previous-} in -o) object=$word ;; esac
  case $word in *.cc) source=$word ;; esac
  previous=$word
done
# A source that unites tests lies in build/, where clang-tidy would take the rules of the product.
case $source in
  *_united.cc) ! grep -q '^#include "tests/' "$source" || rules=--config-file=$(dirname "$0")/../../tests/.clang-tidy ;;
esac
said=$(clang-tidy-14 ${rules:+"$rules"} -load "$TIDY_PLUGIN" --quiet "$source" -- "$@" 2>&1) || { echo "$said" >&2; exit 1; }
"$compiler" "$@" -E -o /dev/null
echo >"$object"
