/* Provides atomic flags, waits and clocks of the system for `_gil.pyx`. Invariant: no function here needs the GIL. */
#pragma once
#include <stdint.h>

#ifdef _WIN32 /* not tested on Windows: no thread gives way, and `Lock` is not used */
static int load(int *flag) { return *flag; }
static void add(int *flag, int n) {}
static int exchange(int *flag, int value) { int was = *flag; *flag = value; return was; }
static void taken_init(void) {}
static void taken_wait(int *flag) {}
static void taken_tell(void) {}
static void wait_readable(int fd, double seconds) {}
static void wait_while(int *word, int value, double seconds) {}
static void wake_one(int *word) {}
static int64_t monotonic_us(void) { return 0; }
static void sleep_us(int64_t us) {}
#else
#include <poll.h>
#include <pthread.h>
#include <time.h>

#define LONGEST_NS 1000000 /* longest wait of a thread for another one to take the GIL */

static int load(int *flag) { return __atomic_load_n(flag, __ATOMIC_SEQ_CST); }
static void add(int *flag, int n) { __atomic_add_fetch(flag, n, __ATOMIC_SEQ_CST); }
static int exchange(int *flag, int value) { return __atomic_exchange_n(flag, value, __ATOMIC_SEQ_CST); }

static int64_t monotonic_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void sleep_us(int64_t us) {
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

/* ---- the wait until another thread has taken the GIL */

static pthread_mutex_t taken_lock;
static pthread_cond_t taken;
static int taken_waiting;

static void taken_init(void) {
    pthread_condattr_t attributes;
    pthread_mutex_init(&taken_lock, NULL);
    pthread_condattr_init(&attributes);
#ifdef __linux__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(&taken, &attributes);
    pthread_condattr_destroy(&attributes);
    taken_waiting = 0;
}

/* Sleep while *flag is set, at most LONGEST_NS. */
static void taken_wait(int *flag) {
    struct timespec until;
#ifdef __linux__
    clock_gettime(CLOCK_MONOTONIC, &until);
#else
    clock_gettime(CLOCK_REALTIME, &until);
#endif
    until.tv_nsec += LONGEST_NS;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&taken_lock);
    taken_waiting++;
    while (load(flag) > 0 && !pthread_cond_timedwait(&taken, &taken_lock, &until)) {
    }
    taken_waiting--;
    pthread_mutex_unlock(&taken_lock);
}

/* Call this after lowering the flag. No wake-up is lost: a waiter reads the flag under the lock, so it reads the new value, or already
   sleeps and gets the broadcast. */
static void taken_tell(void) {
    pthread_mutex_lock(&taken_lock);
    if (taken_waiting) pthread_cond_broadcast(&taken);
    pthread_mutex_unlock(&taken_lock);
}

/* ---- for portable loops */

/* Wait until `fd` is readable, at most `seconds`, rounded up to milliseconds, and at most an hour. A signal may end the wait early. */
static void wait_readable(int fd, double seconds) {
    struct pollfd one = {fd, POLLIN, 0};
    double ms = seconds * 1000;
    poll(&one, 1, ms >= 3600000 ? 3600000 : (int)ms + ((int)ms < ms));
}

/* ---- for locks */

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The layout that the system call expects. `struct timespec` differs where time_t is longer than a register (musl, Debian 13). */
#ifdef SYS_futex
struct futex_limit { long seconds, nanoseconds; };
#else
#define SYS_futex SYS_futex_time64
struct futex_limit { int64_t seconds, nanoseconds; };
#endif

/* Sleep while *word is `value`, up to `seconds` (negative: no limit). The sleep may end early: at a signal, after an hour, or for no
   reason. */
static void wait_while(int *word, int value, double seconds) {
    struct futex_limit limit = {3600, 0};
    if (seconds < 3600) {
        limit.seconds = (int)seconds;
        limit.nanoseconds = (int)((seconds - (int)seconds) * 1e9);
    }
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, seconds < 0 ? NULL : &limit, NULL, 0);
}
static void wake_one(int *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }
#else /* `Lock` is not used */
static void wait_while(int *word, int value, double seconds) {}
static void wake_one(int *word) {}
#endif
#endif
