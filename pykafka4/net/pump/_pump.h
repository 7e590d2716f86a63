/* Wraps the system calls of the pump, with one result for "try again later". Invariant: only `wait_for` blocks. */
#pragma once
#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define AGAIN (-1)
#define BROKEN (-2)

static int64_t monotonic_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Bytes sent, AGAIN, or BROKEN with errno. */
static ssize_t gather(int fd, struct iovec *pieces, int count) {
    struct msghdr message = {0};
    message.msg_iov = pieces;
    message.msg_iovlen = (size_t)count;
    ssize_t n;
    do n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? AGAIN : BROKEN;
    return n;
}

/* Bytes received, 0 at the end of the stream, AGAIN, or BROKEN with errno. */
static ssize_t receive(int fd, char *into, size_t room) {
    ssize_t n;
    do n = recv(fd, into, room, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? AGAIN : BROKEN;
    return n;
}

static int watch(int epoll, int operation, int fd, uint32_t events, void *data) {
    struct epoll_event event;
    event.events = events;
    event.data.ptr = data;
    return epoll_ctl(epoll, operation, fd, &event);
}

/* Wait like epoll_wait, up to `us` microseconds (rounded up to milliseconds without epoll_pwait2). After a signal, the result is 0. */
static int wait_for(int epoll, struct epoll_event *events, int most, int64_t us) {
    int n;
#ifdef SYS_epoll_pwait2
    static int missing = 0;
    if (us > 0 && !missing) {
        struct { int64_t seconds, nanoseconds; } limit = {us / 1000000, us % 1000000 * 1000}; /* 64 bits each, whatever the platform */
        n = (int)syscall(SYS_epoll_pwait2, epoll, events, most, &limit, NULL, 0);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM)) return n < 0 ? 0 : n;
        missing = 1;
    }
#endif
    n = epoll_wait(epoll, events, most, us <= 0 ? 0 : (int)((us + 999) / 1000 > 3600000 ? 3600000 : (us + 999) / 1000));
    return n < 0 ? 0 : n;
}
