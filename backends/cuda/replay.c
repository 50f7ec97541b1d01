#include "backends/cuda/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A graph and the commands that it was captured from.
struct graft_cuda_retired {
  graft_cuda_retired *next;  // older
  CUgraphExec graph;
  double seconds;
  bool is_weighed;
  graft_arena arena;
  graft_cuda_command *commands;
  uint32_t n_commands;
};

bool graft_cuda_can_replay(const graft_recording *recording) {
  return recording->is_capture_safe && recording->is_warm && !recording->has_capture_failed &&
         !recording->device->options.is_replay_off && recording->n_commands > 1;
}

static graft_status capture(graft_recording *recording, graft_error *error) {
  graft_cuda_device *device = recording->device;
  const graft_cuda_driver *driver = &device->driver;
  CUresult result = driver->cuStreamBeginCapture(device->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  GRAFT_TRY(graft_cuda_check(device, result, "beginning to capture a plan", error));
  graft_status status = graft_cuda_issue(recording, 0, recording->n_commands, error);
  CUgraph graph = NULL;
  result = driver->cuStreamEndCapture(device->stream, &graph);
  if (status == GRAFT_OK) status = graft_cuda_check(device, result, "capturing a plan", error);
  if (status == GRAFT_OK) {
    result = driver->cuGraphInstantiateWithFlags(&recording->graph, graph, 0);
    status = graft_cuda_check(device, result, "making a CUDA graph", error);
    if (status != GRAFT_OK) recording->graph = NULL;
  }
  if (graph != NULL) (void)driver->cuGraphDestroy(graph);
  return status;
}

static void report(graft_recording *recording, const graft_error *why) {
  graft_cuda_device *device = recording->device;
  recording->has_capture_failed = true;
  ++device->runs.n_failed_captures;
  snprintf(device->runs.capture_failure, sizeof device->runs.capture_failure, "%.127s", why->message);
  if (device->log == NULL) return;
  graft_context_log(device->log, GRAFT_LOG_WARNING, "%s: a plan of %u commands is dispatched and never replayed: %s",
                    device->name, (unsigned)recording->n_commands, why->message);
}

graft_status graft_cuda_replay(graft_recording *recording, graft_error *error) {
  graft_cuda_device *device = recording->device;
  if (recording->graph == NULL) {
    graft_error why = {0};
    graft_status status = capture(recording, &why);
    if (status != GRAFT_OK && atomic_load(&device->is_lost)) {
      if (error != NULL) *error = why;
      return status;
    }
    // Whoever else uses the card's context breaks a capture by waiting for it. Nothing was run yet.
    if (status != GRAFT_OK) {
      report(recording, &why);
      return graft_cuda_issue(recording, 0, recording->n_commands, error);
    }
    ++device->runs.n_captured;
  }
  const CUresult result = device->driver.cuGraphLaunch(recording->graph, device->stream);
  return graft_cuda_check(device, result, "launching a CUDA graph", error);
}

static bool is_same_command(const graft_cuda_command *a, const graft_cuda_command *b) {
  return a->kind == b->kind && a->function == b->function && a->run == b->run && a->shared_bytes == b->shared_bytes &&
         memcmp(a->grid, b->grid, sizeof a->grid) == 0 && memcmp(a->block, b->block, sizeof a->block) == 0 &&
         a->key_bytes == b->key_bytes && memcmp(a->args, b->args, a->key_bytes) == 0;
}

static bool has_commands_of(const graft_cuda_retired *retired, const graft_recording *recording) {
  if (retired->n_commands != recording->n_commands) return false;
  for (uint32_t i = 0; i < recording->n_commands; ++i) {
    if (!is_same_command(&retired->commands[i], &recording->commands[i])) return false;
  }
  return true;
}

static void destroy_retired(graft_cuda_device *device, graft_cuda_retired *retired) {
  if (retired->graph != NULL) (void)device->driver.cuGraphExecDestroy(retired->graph);
  graft_arena_release(&retired->arena);
  free(retired->commands);
  free(retired);
}

static void drop_oldest(graft_cuda_device *device) {
  graft_cuda_retired **link = &device->retired;
  while ((*link)->next != NULL) link = &(*link)->next;
  destroy_retired(device, *link);
  *link = NULL;
  --device->n_retired;
}

void graft_cuda_retire(graft_recording *recording) {
  graft_cuda_device *device = recording->device;
  if (recording->graph == NULL || graft_cuda_begin_turn(device, NULL) != GRAFT_OK) return;
  // Fault records are memory of the recording, which no other may write to.
  const bool is_kept = recording->n_faults == 0 && !recording->is_bound;
  graft_cuda_retired *retired = is_kept ? calloc(1, sizeof *retired) : NULL;
  if (retired == NULL) {
    (void)device->driver.cuGraphExecDestroy(recording->graph);
  } else {
    *retired = (graft_cuda_retired){.next = device->retired,
                                    .graph = recording->graph,
                                    .seconds = recording->seconds,
                                    .is_weighed = recording->is_weighed,
                                    .arena = recording->arena,
                                    .commands = recording->commands,
                                    .n_commands = recording->n_commands};
    recording->arena = (graft_arena){0};
    recording->commands = NULL;
    device->retired = retired;
    if (++device->n_retired > GRAFT_CUDA_MAX_RETIRED) drop_oldest(device);
  }
  recording->graph = NULL;
  graft_cuda_end_turn(device);
}

void graft_cuda_retired_take(graft_recording *recording) {
  graft_cuda_device *device = recording->device;
  if (recording->n_faults > 0 || recording->is_bound || graft_cuda_begin_turn(device, NULL) != GRAFT_OK) return;
  graft_cuda_retired **link = &device->retired;
  while (*link != NULL && !has_commands_of(*link, recording)) link = &(*link)->next;
  graft_cuda_retired *found = *link;
  if (found != NULL) {
    *link = found->next;
    --device->n_retired;
    recording->graph = found->graph;
    recording->seconds = found->seconds;
    recording->is_weighed = found->is_weighed;
    for (uint32_t i = 0; i < found->n_commands; ++i) recording->commands[i].weight = found->commands[i].weight;
    recording->is_warm = true;
    found->graph = NULL;
    destroy_retired(device, found);
  }
  graft_cuda_end_turn(device);
}

void graft_cuda_retired_clear(graft_cuda_device *device) {
  while (device->retired != NULL) drop_oldest(device);
}
