/* The clocks of one host, for tests: a library that LD_PRELOAD puts before the system's.
 *
 * The file that PROOFLOAD_CLOCK names holds a struct setting, which the test writes. Every clock of the host runs fast by
 * fast_ppm millionths from since_ns on, a time of the monotonic clock, and the calendar is ahead by ahead_ns. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct setting {
    int64_t since_ns;
    int64_t fast_ppm;
    int64_t ahead_ns;
};

static const int64_t second_ns = 1000000000;
static const struct setting *setting;

__attribute__((constructor)) static void find_setting(void) {
    const char *path = getenv("PROOFLOAD_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    void *mapped = mmap(NULL, sizeof *setting, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    setting = mapped == MAP_FAILED ? NULL : mapped;
}

static int64_t ns_of(const struct timespec *time) {
    return time->tv_sec * second_ns + time->tv_nsec;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    int is_calendar = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    int is_monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW ||
                       clock == CLOCK_BOOTTIME;
    if (failed || !setting || !(is_calendar || is_monotonic)) {
        return failed;
    }
    struct timespec monotonic;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &monotonic);
    int64_t passed_ns = ns_of(&monotonic) - setting->since_ns;
    int64_t ns = ns_of(time) + (int64_t)((__int128)passed_ns * setting->fast_ppm / 1000000);
    if (is_calendar) {
        ns += __atomic_load_n(&setting->ahead_ns, __ATOMIC_RELAXED);
    }
    time->tv_sec = ns / second_ns;
    time->tv_nsec = ns % second_ns;
    return 0;
}
