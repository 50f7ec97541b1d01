// fake_queue.h — streams of the driver's double. Work is done as late as the rules allow: when somebody waits for it.
// So a wait that is missing shows as wrong bytes, and is counted where it can be seen to be missing.
#ifndef GRAFT_TESTS_CUDA_FAKE_QUEUE_H
#define GRAFT_TESTS_CUDA_FAKE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum fake_op_kind { FAKE_COPY, FAKE_FILL, FAKE_LAUNCH, FAKE_RECORD, FAKE_WAIT } fake_op_kind;

typedef struct fake_event fake_event;
typedef struct fake_stream fake_stream;

typedef struct fake_op {
  struct fake_op *next;
  fake_op_kind kind;
  char *target;
  const char *source;
  size_t bytes;
  int value;             // of a fill
  const char *function;  // of a launch
  fake_event *event;     // recorded or waited for
  uint64_t number;       // of the recording
  size_t params_bytes;
  _Alignas(16) char params[];
} fake_op;

typedef struct fake_list {
  fake_op *first, *last;
} fake_list;

// Appends a copy of |op| with its parameters; false when memory ends.
bool fake_list_add(fake_list *list, const fake_op *op, const void *params);
void fake_list_clear(fake_list *list);

fake_stream *fake_stream_make(void);
fake_event *fake_event_make(void);
fake_list *fake_stream_list(fake_stream *stream);
bool fake_event_record(fake_event *event, fake_stream *stream);
bool fake_stream_wait(fake_stream *stream, fake_event *event);

// Does what was begun: in one stream, up to the last recording of an event, everywhere.
void fake_stream_run(fake_stream *stream);
void fake_event_run(fake_event *event);
void fake_run_all(void);

// Memory that is about to be freed: work that would still use it is an error of the caller, and is done first.
void fake_memory_leaves(const void *memory, size_t bytes);

// Whether a launch waits in another stream.
bool fake_has_launch_beside(const fake_stream *stream);

// Launches and copies that use what another stream is not done with, so far, and memory that was freed too soon.
int64_t fake_n_hazards(void);

// Forgets what was begun and not done, and the hazards.
void fake_queue_reset(void);
void fake_queue_free(void);

#endif
