/* What starting a script costs by itself: spawned, its output read to the end, waited for.
 *
 *   spawn SCRIPT COUNT TOGETHER
 *
 * Prints JSON: the seconds of all, how many were wrong, and the microseconds of each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char EXPECTED[] = "hello\n";
static char *script;
static double *micros;
static int count, next, wrong;
extern char **environ;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

/* Whether the script said what it should. */
static int run_once(void) {
    int ends[2], status;
    char said[64];
    size_t length = 0;
    pid_t child;
    posix_spawn_file_actions_t actions;
    char *words[] = {script, NULL};

    if (pipe2(ends, O_CLOEXEC) != 0)
        return 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    int failed = posix_spawn(&child, script, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    while (!failed && length < sizeof said) {
        ssize_t more = read(ends[0], said + length, sizeof said - length);
        if (more <= 0)
            break;
        length += more;
    }
    close(ends[0]);
    if (failed || waitpid(child, &status, 0) != child || status != 0)
        return 0;
    return length == strlen(EXPECTED) && memcmp(said, EXPECTED, length) == 0;
}

/* One after another, until all are done. */
static void *work(void *unused) {
    (void)unused;
    for (;;) {
        int mine = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
        if (mine >= count)
            return NULL;
        double began = now();
        if (!run_once())
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        micros[mine] = now() - began;
    }
}

int main(int many, char **words) {
    if (many != 4)
        return 2;
    script = words[1];
    count = atoi(words[2]);
    int together = atoi(words[3]);
    pthread_t *threads = calloc(together, sizeof *threads);
    micros = calloc(count, sizeof *micros);
    if (count < 1 || together < 1 || !threads || !micros)
        return 2;

    double began = now();
    for (int each = 0; each < together; each++)
        if (pthread_create(&threads[each], NULL, work, NULL) != 0)
            return 1;
    for (int each = 0; each < together; each++)
        pthread_join(threads[each], NULL);
    double seconds = (now() - began) / 1e6;

    printf("{\"seconds\": %.6f, \"wrong\": %d, \"micros\": [", seconds, wrong);
    for (int each = 0; each < count; each++)
        printf("%s%.1f", each ? ", " : "", micros[each]);
    printf("]}\n");
    return 0;
}
