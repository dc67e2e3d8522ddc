# awk [-v build_failures=N] -f count_tests.awk JUNIT.xml LastTest.log: prints `N passed, N failed, N skipped`, and exits
# with 1 if any failed.
#
# A doctest program counts as its test cases, as its own summary line gives them; every other test counts as one. The
# status comes from ctest's JUnit file, the summaries from its log, which, unlike the JUnit file, is never cut short.
#
# A program that cannot run some of its cases here (no GPU) prints `gradus skipped: N`. Such cases return early, so
# doctest takes them for passed, unless it was doctest that skipped them.

function attribute(line, name) {
  if (!match(line, name "=\"[^\"]*\"")) return ""
  return substr(line, RSTART + length(name) + 2, RLENGTH - length(name) - 3)
}
# The number before `word` in a doctest summary line.
function number_before(line, word) {
  if (!match(line, "[0-9]+ " word)) return 0
  return substr(line, RSTART, RLENGTH) + 0
}

FILENAME == ARGV[1] {
  if ($0 ~ /<testcase /) { test = attribute($0, "name"); status[test] = attribute($0, "status") }
  else if ($0 ~ /<skipped message="SKIP/) status[test] = "skipped"
  next
}

/^[0-9]+\/[0-9]+ Test: / { test = $0; sub(/^[^:]*: /, "", test); next }
/^\[doctest\] test cases:/ {
  summarised[test] = 1
  passed[test] += number_before($0, "passed")
  failed[test] += number_before($0, "failed")
  skipped[test] += number_before($0, "skipped")
}
/^gradus skipped: [0-9]+/ { unable[test] += $3 }

END {
  all_failed = build_failures + 0
  for (test in status) {
    if (status[test] == "disabled" || status[test] == "skipped") { ++all_skipped; continue }
    if (!(test in summarised)) {
      if (status[test] != "run") ++all_failed
      else if (test in unable) all_skipped += unable[test]
      else ++all_passed
      continue
    }
    extra = unable[test] - skipped[test]
    if (extra < 0) extra = 0
    if (extra > passed[test]) extra = passed[test]
    all_passed += passed[test] - extra
    all_skipped += skipped[test] + extra
    all_failed += failed[test]
    if (status[test] != "run" && failed[test] == 0) ++all_failed  # a leak, a crash after the summary, a timeout
  }
  printf "%d passed, %d failed, %d skipped\n", all_passed, all_failed, all_skipped
  exit all_failed > 0
}
