// progress.h — one line that says how far a generation is: redrawn on a terminal, one line per phase elsewhere.
#ifndef GRAFT_TOOLS_GRAFT_PROGRESS_H
#define GRAFT_TOOLS_GRAFT_PROGRESS_H

#include "graft/diffusion.h"

typedef struct tool_progress {
  bool is_terminal;
  bool has_open_line;
  double started;        // of the whole, in seconds
  double phase_started;  // of the present phase
} tool_progress;

void tool_progress_begin(tool_progress *progress);

// Fits graft_generate_callbacks.on_progress; |user| is a tool_progress.
void tool_progress_report(void *user, graft_generate_phase phase, uint32_t n_done, uint32_t n_steps);

// Draws |line| over the one before, cut where the terminal ends.
void tool_progress_draw(tool_progress *progress, const char *line);

// Ends an open line, so that what follows begins on a line of its own.
void tool_progress_end(tool_progress *progress);

// Seconds since |progress| began.
double tool_progress_elapsed(const tool_progress *progress);

// A monotonic clock, in seconds.
double tool_now(void);

#endif
