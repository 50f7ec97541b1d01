// Runs only those tests of a program whose names match GRAFT_TEST_FILTER, so that ctest can list and run the tests of
// one rule by its id. Linked into every test; before main, since the tests' mains need not know of it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void filter_tests(void) {
  const char *pattern = getenv("GRAFT_TEST_FILTER");
  if (pattern != NULL) cmocka_set_test_filter(pattern);
}
