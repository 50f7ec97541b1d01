// Arena, growing arrays, structs of other ages, error records.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graft/kernel.h"
#include "src/base/versioned.h"
#include "src/base/arena.h"
#include "src/base/array.h"
#include "src/base/checked.h"

static void arena_gives_aligned_zeroed_separate_memory(void **state) {
  (void)state;
  graft_arena arena = {0};
  unsigned char *pieces[400];
  size_t sizes[400];
  for (size_t i = 0; i < 400; ++i) {
    sizes[i] = i * i % 3001;
    pieces[i] = graft_arena_alloc(&arena, sizes[i]);
    assert_non_null(pieces[i]);
    assert_int_equal((uintptr_t)pieces[i] % 16, 0);
    for (size_t b = 0; b < sizes[i]; ++b) assert_int_equal(pieces[i][b], 0);
    memset(pieces[i], (int)(i % 251), sizes[i]);
  }
  for (size_t i = 0; i < 400; ++i) {
    for (size_t b = 0; b < sizes[i]; ++b) assert_int_equal(pieces[i][b], i % 251);
  }
  char *large = graft_arena_alloc(&arena, 3 << 20);
  assert_non_null(large);
  large[(3 << 20) - 1] = 1;
  assert_string_equal(graft_arena_copy_string(&arena, "text"), "text");
  assert_string_equal(graft_arena_format(&arena, "%d %s", 7, "x"), "7 x");
  graft_arena_release(&arena);
  graft_arena_release(&arena);
}

static void sizes_that_overflow_give_nothing(void **state) {
  (void)state;
  graft_arena arena = {0};
  assert_null(graft_arena_alloc(&arena, SIZE_MAX));
  assert_null(graft_arena_alloc(&arena, SIZE_MAX - 16));
  assert_null(graft_arena_alloc_array(&arena, SIZE_MAX / 2, 3));
  size_t n = 5;
  assert_false(graft_checked_align(SIZE_MAX - 3, 16, &n));
  assert_true(graft_checked_align(17, 16, &n));
  assert_int_equal(n, 32);
  uint32_t capacity = 0;
  assert_null(graft_array_reserve(NULL, UINT32_MAX, 1, &capacity, 1));
  assert_int_equal(capacity, 0);
  graft_arena_release(&arena);
}

static void arrays_keep_their_elements(void **state) {
  (void)state;
  uint32_t *numbers = NULL, capacity = 0;
  for (uint32_t n = 0; n < 1000; ++n) {
    numbers = graft_array_reserve(numbers, n, 1, &capacity, sizeof *numbers);
    assert_true(capacity > n);
    numbers[n] = n;
  }
  for (uint32_t n = 0; n < 1000; ++n) assert_int_equal(numbers[n], n);
  free(numbers);
}

typedef struct thing {
  uint32_t struct_size;
  int32_t a;
  int64_t b;
} thing;

static void OP8_structs_of_other_ages(void **state) {
  (void)state;
  thing target, same = {sizeof same, 1, 2};
  assert_int_equal(graft_versioned_copy(&target, sizeof target, &same, "a thing", NULL), GRAFT_OK);
  assert_memory_equal(&target, &same, sizeof same);
  thing older = {offsetof(thing, b), 1, 99};
  assert_int_equal(graft_versioned_copy(&target, sizeof target, &older, "a thing", NULL), GRAFT_OK);
  assert_int_equal(target.a, 1);
  assert_int_equal(target.b, 0);
  assert_int_equal(target.struct_size, sizeof target);
  struct {
    thing known;
    int64_t more;
  } newer = {{sizeof newer, 1, 2}, 0};
  assert_int_equal(graft_versioned_copy(&target, sizeof target, &newer, "a thing", NULL), GRAFT_OK);
  newer.more = 1;
  graft_error error = {0};
  assert_int_equal(graft_versioned_copy(&target, sizeof target, &newer, "a thing", &error), GRAFT_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "a thing"));
  // Nobody set these, or they cut a member in half.
  for (uint32_t size = 0; size < 32; ++size) {
    if (size > 0 && size % 8 == 0) continue;
    same.struct_size = size;
    assert_int_equal(graft_versioned_copy(&target, sizeof target, &same, "a thing", &error), GRAFT_E_INVALID);
    thing filled = {size, 3, 4};
    graft_versioned_fill(&filled, &same, sizeof same);
    assert_true(filled.struct_size == size && filled.a == 3 && filled.b == 4);
  }
}

// Sizes that nobody set: nothing is read or written that is not the caller's.
static void OP8_huge_structs_are_refused(void **state) {
  (void)state;
  const uint32_t sizes[] = {(1 << 16) + 4, 0x7ffffffc, 0xfffffffc};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    thing target = {0}, source = {sizes[i], 0, 0}, filled = {sizes[i], 3, 4};
    graft_error error = {0};
    assert_int_equal(graft_versioned_copy(&target, sizeof target, &source, "a thing", &error), GRAFT_E_INVALID);
    assert_non_null(strstr(error.message, "a thing"));
    graft_versioned_fill(&filled, &source, sizeof source);
    assert_true(filled.struct_size == sizes[i] && filled.a == 3 && filled.b == 4);
  }
}

// Elements lie as far apart as the first one is large; another size would have been read from somewhere else.
static void OP8_elements_of_one_array_have_one_size(void **state) {
  (void)state;
  thing things[2] = {{sizeof things[0], 1, 2}, {sizeof things[0], 3, 4}};
  void *copy = NULL;
  assert_int_equal(graft_versioned_array(things, 2, sizeof things[0], "a thing", NULL, &copy), GRAFT_OK);
  assert_memory_equal(copy, things, sizeof things);
  free(copy);
  const uint32_t sizes[] = {0, 8, 12, 24, 1 << 16};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    graft_error error = {0};
    things[1].struct_size = sizes[i];
    assert_int_equal(graft_versioned_array(things, 2, sizeof things[0], "a thing", &error, &copy), GRAFT_E_INVALID);
    assert_non_null(strstr(error.message, "struct_size of a thing is"));
  }
}

static void error_messages_are_cut_between_characters(void **state) {
  (void)state;
  graft_error error = {0};
  char text[700];
  for (int shift = 0; shift < 3; ++shift) {
    memset(text, 'a', sizeof text);
    for (size_t i = (size_t)shift; i + 3 < sizeof text; i += 3) memcpy(text + i, "\xE2\x82\xAC", 3);
    text[sizeof text - 1] = '\0';
    assert_int_equal(GRAFT_FAIL(&error, GRAFT_E_IO, "%s", text), GRAFT_E_IO);
    size_t n = strlen(error.message);
    assert_true(n > 500 && n < sizeof error.message);
    assert_int_equal((n - (size_t)shift) % 3, 0);
  }
  for (int i = 0; i < 9; ++i) graft_error_note(&error, "note %d", i);
  assert_int_equal(error.n_notes, GRAFT_ERROR_MAX_NOTES);
  assert_string_equal(error.notes[3], "note 3");
  graft_error_note(NULL, "nowhere");
  assert_int_equal(GRAFT_FAIL(NULL, GRAFT_E_IO, "nowhere"), GRAFT_E_IO);
}

static void every_status_has_a_name(void **state) {
  (void)state;
  for (int a = 0; a <= GRAFT_E_DEVICE; ++a) {
    assert_string_not_equal(graft_status_name((graft_status)a), "unknown status");
    for (int b = 0; b < a; ++b)
      assert_string_not_equal(graft_status_name((graft_status)a), graft_status_name((graft_status)b));
  }
  assert_string_equal(graft_status_name((graft_status)999), "unknown status");
}

static void KS6_refusals_are_written_and_cut(void **state) {
  (void)state;
  graft_reason why;
  assert_false(graft_refuse(&why, "rank %d", 3));
  assert_string_equal(why.text, "rank 3");
  assert_false(graft_refuse(&why, "%0300d", 1));
  assert_int_equal(strlen(why.text), sizeof why.text - 1);
  assert_false(graft_refuse(NULL, "nowhere"));
  assert_true(strlen(graft_version()) > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_gives_aligned_zeroed_separate_memory),
      cmocka_unit_test(sizes_that_overflow_give_nothing),
      cmocka_unit_test(arrays_keep_their_elements),
      cmocka_unit_test(OP8_structs_of_other_ages),
      cmocka_unit_test(OP8_huge_structs_are_refused),
      cmocka_unit_test(OP8_elements_of_one_array_have_one_size),
      cmocka_unit_test(error_messages_are_cut_between_characters),
      cmocka_unit_test(every_status_has_a_name),
      cmocka_unit_test(KS6_refusals_are_written_and_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
