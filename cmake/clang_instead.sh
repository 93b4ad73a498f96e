#!/bin/sh
# clang_instead.sh CLANG [COMPILER-CACHE] GCC ARGUMENT...: runs clang with a command line that CMake made for GCC.
# A launcher of the compiler, for tests: clang takes half the time for what is not optimized, most of all with the
# templates of the precompiled headers instantiated once. What is shipped is GCC's.
clang=$1
shift
case $1 in *ccache) cache=$1; shift ;; *) cache= ;; esac
shift
case " $* " in *" c++-header "*) makes_header=1 ;; *) makes_header= ;; esac
left=$#
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  case $word in
    -Winvalid-pch) ;;
    -include)
      if [ "$makes_header" ]; then # As it is, although a precompiled one of earlier may lie beside it.
        set -- "$@" -Xclang -include -Xclang "$1"
      else # By its name, else the compiler cache does not know the header for a precompiled one.
        set -- "$@" -Xclang -include-pch -Xclang "$1.gch"
      fi
      shift
      left=$((left - 1)) ;;
    *) set -- "$@" "$word" ;;
  esac
done
# Without the time of its making two precompiled headers of the same content are the same.
exec $cache "$clang" -fpch-instantiate-templates -Xclang -fno-pch-timestamp "$@"
