/* elasticjob-agent: the first instruction of ours in somebody else's image.
 *
 * It is static, so no loader and no library of the image has a say in it. It hides the image's whole environment from
 * the agent's own C library, interpreter and packages: every variable but ELASTICJOB_* gets a '~' in front, which makes
 * LD_PRELOAD, LD_LIBRARY_PATH, PYTHONPATH and the like mere strings. Then it becomes the interpreter beside it.
 * payload.py takes the '~' away again for the workers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOME "/opt/elasticjob"
#define INTERPRETER HOME "/bin/" PYTHON

extern char **environ;

/* Isolated (-I), without site-packages (-S), writing no byte code (-B), in UTF-8 whatever the locale. */
static char *const COMMAND[] = {INTERPRETER, "-I", "-S", "-B", "-X", "utf8", "-m", "elasticjob_payload"};
enum { COMMAND_LENGTH = sizeof COMMAND / sizeof *COMMAND };

static void *need(void *memory) {
  if (!memory) {
    fputs("elasticjob-agent: no memory to start with\n", stderr);
    exit(127);
  }
  return memory;
}

static char *hidden(const char *variable) {
  size_t length = strlen(variable) + 1;
  char *copy = need(malloc(length + 1));
  copy[0] = '~';
  memcpy(copy + 1, variable, length);
  return copy;
}

int main(int argc, char **argv) {
  int count = 0, kept = 0;
  while (environ[count]) count++;
  char **environment = need(calloc(count + 2, sizeof *environment));
  for (int i = 0; i < count; i++)
    environment[kept++] = strncmp(environ[i], "ELASTICJOB_", 11) ? hidden(environ[i]) : environ[i];
  environment[kept++] = "LC_ALL=C"; /* other locales are not built into the C library */

  char **command = need(calloc(COMMAND_LENGTH + argc + 1, sizeof *command));
  memcpy(command, COMMAND, sizeof COMMAND);
  for (int i = 1; i < argc; i++) command[COMMAND_LENGTH + i - 1] = argv[i];
  execve(INTERPRETER, command, environment);
  perror("elasticjob-agent: cannot run " INTERPRETER);
  return 127;
}
