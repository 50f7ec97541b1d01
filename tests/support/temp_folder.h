// temp_folder.h — a folder for the files of one test, removed with everything in it.
#ifndef GRAFT_TESTS_TEMP_FOLDER_H
#define GRAFT_TESTS_TEMP_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

enum { TEMP_PATH_BYTES = 512 };

typedef struct temp_folder {
  char path[TEMP_PATH_BYTES];
} temp_folder;

typedef struct temp_path {
  char text[TEMP_PATH_BYTES];
} temp_path;

// All of these end the process with a message when the machine does not let them: without them there is no test.
temp_folder temp_folder_create(void);
void temp_folder_remove(const temp_folder *folder);

// "folder/name".
temp_path temp_folder_join(const temp_folder *folder, const char *name);

// Writes a file and returns its path.
temp_path temp_folder_write(const temp_folder *folder, const char *name, const void *data, size_t bytes);
temp_path temp_folder_write_text(const temp_folder *folder, const char *name, const char *text);

// How many entries the folder has.
size_t temp_folder_count(const temp_folder *folder);

// The contents of a file, NUL-terminated; the caller frees them. |out_bytes| may be NULL.
char *temp_folder_read(const char *path, size_t *out_bytes);

#endif
