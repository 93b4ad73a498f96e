# cmake -D OUTPUT=FILE -D ROOT=FOLDER -P Commit.cmake: writes the source that names the commit, if another one is there. It is
# that of CSIDELTA_COMMIT in the environment, else the one that git has checked out, with "+" if files differ from it, else
# "unknown": a tree that was unpacked is none of a repository around it.
set(commit "$ENV{CSIDELTA_COMMIT}")
if(NOT commit AND EXISTS "${ROOT}/.git")
  execute_process(
    COMMAND git --no-optional-locks -C "${ROOT}" describe --always --abbrev=12 --exclude=* --dirty=+
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT commit MATCHES "^[0-9A-Za-z._+-]+$")
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY
  CONTENT "namespace csidelta {\nextern const char kCommit[];\nconst char kCommit[] = \"${commit}\";\n}  // namespace csidelta\n")
