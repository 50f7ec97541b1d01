#include "tools/graft/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tools/graft/tool.h"

enum { BAR_WIDTH = 24, COLUMNS = 80 };

static const char *const phase_names[] = {"preparing", "reading the prompt", "loading", "drawing", "decoding"};

double tool_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void tool_progress_begin(tool_progress *progress) {
  *progress = (tool_progress){.is_terminal = isatty(STDERR_FILENO) != 0, .started = tool_now()};
}

double tool_progress_elapsed(const tool_progress *progress) {
  return tool_now() - progress->started;
}

void tool_progress_end(tool_progress *progress) {
  if (progress->has_open_line) fputc('\n', stderr);
  progress->has_open_line = false;
  tool_leave_line_open(false);
}

static int count_columns(void) {
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS;
}

// A line that wraps could not be drawn over.
void tool_progress_draw(tool_progress *progress, const char *line) {
  fprintf(stderr, "\r\033[K%.*s", count_columns() - 1, line);
  fflush(stderr);
  progress->has_open_line = true;
  tool_leave_line_open(true);
}

static void draw_phase(tool_progress *progress, graft_generate_phase phase, uint32_t n_done, uint32_t n_steps) {
  char bar[BAR_WIDTH + 1], left[64] = "", line[192];
  uint32_t filled = n_steps == 0 ? 0 : (uint32_t)((uint64_t)BAR_WIDTH * n_done / n_steps);
  memset(bar, ' ', BAR_WIDTH);
  memset(bar, '#', filled);
  bar[BAR_WIDTH] = '\0';
  const double elapsed = tool_now() - progress->phase_started;
  if (n_done > 0 && n_done < n_steps)
    snprintf(left, sizeof left, "  %.2f s/step, %.0f s left", elapsed / n_done, elapsed / n_done * (n_steps - n_done));
  // Where not all of it fits the bar goes first, then the time that is left: what stays is whole.
  const int columns = count_columns();
  int n = snprintf(line, sizeof line, "%-18s [%s] %u/%u%s", phase_names[phase], bar, n_done, n_steps, left);
  if (n >= columns) n = snprintf(line, sizeof line, "%s %u/%u%s", phase_names[phase], n_done, n_steps, left);
  if (n >= columns) snprintf(line, sizeof line, "%s %u/%u", phase_names[phase], n_done, n_steps);
  tool_progress_draw(progress, line);
}

void tool_progress_report(void *user, graft_generate_phase phase, uint32_t n_done, uint32_t n_steps) {
  tool_progress *progress = user;
  if (n_done == 0) progress->phase_started = tool_now();
  if (progress->is_terminal) {
    draw_phase(progress, phase, n_done, n_steps);
    return;
  }
  if (n_steps == 0 || n_done != n_steps || n_done == 0) return;
  fprintf(stderr, "graft: %s: %u/%u, %.2f s\n", phase_names[phase], n_done, n_steps,
          tool_now() - progress->phase_started);
}
