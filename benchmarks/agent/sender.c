/* Plays a client of the agent that costs as little as a client can, and measures each of its calls.
 *
 * usage: sender PATH SECONDS VALUE_SIZE PER_SECOND BLOCKING TOPICS BATCH
 *   PER_SECOND 0: as fast as possible. BLOCKING 0: a datagram that finds the queue full is dropped. TOPICS: t0 … tN-1 in turn.
 *   BATCH 1: one send() for each message, as clients do; more: sendmmsg().
 * prints: sent dropped errors slow(>1ms) longest_us cpu_us
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, TOPICS = 64, SLOW_NS = 1000000, PAUSE_NS = 1000000 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static size_t build(char *out, int topic, size_t value_size) {
    char name[16], *p = out;
    uint16_t name_size = (uint16_t)snprintf(name, sizeof name, "t%d", topic);
    uint32_t total = (uint32_t)(28 + name_size + value_size), size = htobe32(total), none = 0, values = htobe32((uint32_t)value_size);
    uint16_t api = htobe16(256), zero = 0, names = htobe16(name_size);
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t stamp = htobe64((uint64_t)(t.tv_sec * 1000LL + t.tv_nsec / 1000000));
#define PUT(what, n) (memcpy(p, what, n), p += n)
    PUT(&size, 4); PUT(&api, 2); PUT(&zero, 2); PUT(&zero, 2); PUT(&names, 2); PUT(name, name_size); PUT(&stamp, 8); PUT(&none, 4); PUT(&values, 4);
    memset(p, 'v', value_size);
    return total;
}

int main(int argc, char **argv) {
    if (argc != 8) return fprintf(stderr, "usage: sender PATH SECONDS VALUE_SIZE PER_SECOND BLOCKING TOPICS BATCH\n"), 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    size_t value_size = strtoul(argv[3], NULL, 10), sizes[TOPICS];
    double per_second = atof(argv[4]);
    int flags = atoi(argv[5]) ? 0 : MSG_DONTWAIT, topics = atoi(argv[6]), batch = atoi(argv[7]);
    if (topics < 1 || topics > TOPICS || batch < 1 || batch > MOST) return 2;
    char *messages[TOPICS];
    for (int i = 0; i < topics; i++) sizes[i] = build(messages[i] = malloc(value_size + 64), i, value_size);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) return perror(argv[1]), 1;
    struct mmsghdr heads[MOST];
    struct iovec pieces[MOST];
    memset(heads, 0, sizeof heads);
    int64_t begun = now_ns(), end = begun + (int64_t)(atof(argv[2]) * 1e9), before = begun, after, longest = 0;
    uint64_t sent = 0, dropped = 0, errors = 0, slow = 0, tried = 0;
    while (before < end) {
        if (per_second > 0 && (double)tried >= (double)(before - begun) / 1e9 * per_second) {
            struct timespec pause = {0, PAUSE_NS};
            nanosleep(&pause, NULL);
            before = now_ns();
            continue;
        }
        int done;
        if (batch == 1) {
            int topic = (int)(tried % (uint64_t)topics);
            done = send(fd, messages[topic], sizes[topic], flags) < 0 ? -1 : 1;
        } else {
            for (int i = 0; i < batch; i++) {
                int topic = (int)((tried + (uint64_t)i) % (uint64_t)topics);
                pieces[i] = (struct iovec){messages[topic], sizes[topic]};
                heads[i].msg_hdr.msg_iov = pieces + i;
                heads[i].msg_hdr.msg_iovlen = 1;
            }
            done = sendmmsg(fd, heads, (unsigned)batch, flags);
        }
        after = now_ns();
        if (after - before > SLOW_NS) slow++;
        if (after - before > longest) longest = after - before;
        before = after;
        if (done > 0) sent += (uint64_t)done, tried += (uint64_t)done;
        else if (errno == EAGAIN) dropped++, tried++;
        else if (errno == ECONNREFUSED || errno == EPIPE) { errors++; break; }
        else errors++, tried++;
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    long cpu = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000L + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
    printf("%llu %llu %llu %llu %lld %ld\n", (unsigned long long)sent, (unsigned long long)dropped, (unsigned long long)errors,
           (unsigned long long)slow, (long long)longest / 1000, cpu);
    return 0;
}
