/* Moves the clocks of a process: preloaded, it adds the nanoseconds that stand in the file $CLOCK_SHIM_FILE to what
 * clock_gettime says of the clocks whose numbers stand behind them ("3600000000000 0 1 7" moves the wall clock, the
 * monotonic one and the one that counts suspends). Timeouts, and what the kernel says in /proc, stay as they are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    const char *path = getenv("CLOCK_SHIM_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (result != 0 || file < 0)
        return (int)result;
    char text[64] = {0};
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0)
        return 0;
    char *rest = text;
    long long moved = strtoll(text, &rest, 10);
    for (char *next = rest; *rest; rest = next) {
        long number = strtol(rest, &next, 10);
        if (next == rest)
            break;
        if (number == (long)clock) {
            long long ns = time->tv_sec * 1000000000LL + time->tv_nsec + moved;
            time->tv_sec = ns / 1000000000LL;
            time->tv_nsec = ns % 1000000000LL;
        }
    }
    return 0;
}
