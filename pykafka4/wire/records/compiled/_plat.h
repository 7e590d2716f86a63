/* Implements CRC-32C (in hardware where possible), big-endian loads and stores, varints, murmur2, a check of UTF-8, and the wall clock.
   Callers ensure that loads and writes stay within their memory; reads of varints check this themselves. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#ifdef __GNUC__
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define PREFETCH(p) __builtin_prefetch(p)
#else
#define ALWAYS_INLINE static inline
#define PREFETCH(p) ((void)(p))
#endif

/* ---- CRC-32C, portable: eight tables, eight bytes a step */

static uint32_t crc_table[8][256];

static void crc_tables_init(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t c = n;
        for (int bit = 0; bit < 8; bit++) c = (c >> 1) ^ (c & 1 ? 0x82f63b78u : 0);
        crc_table[0][n] = c;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 8; k++) crc_table[k][n] = (crc_table[k - 1][n] >> 8) ^ crc_table[0][crc_table[k - 1][n] & 255];
}

static uint32_t crc32c_portable(uint32_t crc, const char *data, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    uint32_t c = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        c ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        c = crc_table[7][c & 255] ^ crc_table[6][c >> 8 & 255] ^ crc_table[5][c >> 16 & 255] ^ crc_table[4][c >> 24] ^
            crc_table[3][p[4]] ^ crc_table[2][p[5]] ^ crc_table[1][p[6]] ^ crc_table[0][p[7]];
    }
    while (size--) c = (c >> 8) ^ crc_table[0][(c ^ *p++) & 255];
    return ~c;
}

/* ---- CRC-32C, SSE 4.2: three interleaved streams hide the instruction's latency of three cycles; a table for "append CRC_STRIDE zero
   bytes" joins the streams (Adler's method). */

#if defined(__x86_64__) && defined(__GNUC__)
#define CRC_STRIDE 4096
static uint32_t crc_zeros[4][256];

static uint32_t gf2_times(const uint32_t *matrix, uint32_t vector) {
    uint32_t sum = 0;
    for (; vector; vector >>= 1, matrix++)
        if (vector & 1) sum ^= *matrix;
    return sum;
}

static void crc_zeros_init(void) {
    uint32_t a[32], b[32];
    a[0] = 0x82f63b78u; /* the matrix of one zero bit … */
    for (int i = 1; i < 32; i++) a[i] = 1u << (i - 1);
    for (int k = 0; k < 15; k++) { /* … squared 15 times: 2^15 bits are CRC_STRIDE bytes */
        for (int i = 0; i < 32; i++) b[i] = gf2_times(a, a[i]);
        memcpy(a, b, sizeof a);
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int j = 0; j < 4; j++) crc_zeros[j][n] = gf2_times(a, n << (8 * j));
}

static inline uint32_t crc_skip(uint32_t c) {
    return crc_zeros[0][c & 255] ^ crc_zeros[1][c >> 8 & 255] ^ crc_zeros[2][c >> 16 & 255] ^ crc_zeros[3][c >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const char *p, size_t size) {
    uint64_t c = ~crc & 0xffffffffu, c1, c2, v;
    for (; size >= 3 * CRC_STRIDE; p += 2 * CRC_STRIDE, size -= 3 * CRC_STRIDE) {
        const char *end = p + CRC_STRIDE;
        c1 = c2 = 0;
        for (; p < end; p += 8) {
            memcpy(&v, p, 8), c = __builtin_ia32_crc32di(c, v);
            memcpy(&v, p + CRC_STRIDE, 8), c1 = __builtin_ia32_crc32di(c1, v);
            memcpy(&v, p + 2 * CRC_STRIDE, 8), c2 = __builtin_ia32_crc32di(c2, v);
        }
        c = crc_skip((uint32_t)c) ^ (uint32_t)c1;
        c = crc_skip((uint32_t)c) ^ (uint32_t)c2;
    }
    for (; size >= 8; p += 8, size -= 8) memcpy(&v, p, 8), c = __builtin_ia32_crc32di(c, v);
    uint32_t d = (uint32_t)c;
    while (size--) d = __builtin_ia32_crc32qi(d, (unsigned char)*p++);
    return ~d;
}
#elif defined(__aarch64__) && defined(__GNUC__) && (defined(__linux__) || defined(__ARM_FEATURE_CRC32))
/* Compilers assume the instruction on few targets only, such as Apple's, so on Linux support is checked at run time. The code is assembly,
   because with some compilers the intrinsics need an option for the whole file, and the names of the built-in functions differ between
   compilers. */
#ifdef __linux__
#include <sys/auxv.h>
#define CRC_HWCAP (1ul << 7) /* HWCAP_CRC32 */
#endif
static uint32_t crc32c_arm(uint32_t crc, const char *p, size_t size) {
    uint32_t c = ~crc;
    uint64_t v;
    for (; size >= 8; p += 8, size -= 8) {
        memcpy(&v, p, 8);
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(c) : "r"(v));
    }
    while (size--) {
        uint32_t byte = (unsigned char)*p++;
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(c) : "r"(byte));
    }
    return ~c;
}
static int crc_arm_there(void) {
#ifdef __linux__
    return (getauxval(AT_HWCAP) & CRC_HWCAP) != 0;
#else
    return 1;
#endif
}
#define CRC_ARM
#endif

static uint32_t (*crc32c_extend)(uint32_t, const char *, size_t) = crc32c_portable;

static void plat_init(void) {
    crc_tables_init();
#if defined(__x86_64__) && defined(__GNUC__)
    crc_zeros_init();
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) crc32c_extend = crc32c_sse42;
#elif defined(CRC_ARM)
    if (crc_arm_there()) crc32c_extend = crc32c_arm;
#endif
}

/* ---- big-endian stores and loads */

static inline void put16(char *p, int16_t value) {
    uint16_t v = (uint16_t)value;
    p[0] = (char)(v >> 8), p[1] = (char)v;
}
static inline void put32(char *p, int32_t value) {
    uint32_t v = (uint32_t)value;
    p[0] = (char)(v >> 24), p[1] = (char)(v >> 16), p[2] = (char)(v >> 8), p[3] = (char)v;
}
static inline void put64(char *p, int64_t value) {
    put32(p, (int32_t)((uint64_t)value >> 32)), put32(p + 4, (int32_t)(uint64_t)value);
}
static inline int16_t get16(const char *p) {
    const unsigned char *u = (const unsigned char *)p;
    return (int16_t)(u[0] << 8 | u[1]);
}
static inline int32_t get32(const char *p) {
    const unsigned char *u = (const unsigned char *)p;
    return (int32_t)((uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3]);
}
static inline int64_t get64(const char *p) {
    return (int64_t)((uint64_t)(uint32_t)get32(p) << 32 | (uint32_t)get32(p + 4));
}

/* ---- zigzag varints, of at most five bytes (varint) or ten (varlong); a read returns NULL if the varint is longer, or passes `end` */

static inline int varint_size(int64_t value) {
    uint64_t z = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    int size = 1;
    if (z < 128) return 1; /* nearly all varints have one or two bytes, and these branches are free */
    if (z < 16384) return 2;
#ifdef __GNUC__
    if (z > 127) size = (70 - __builtin_clzll(z)) / 7; /* ceil(bits / 7) */
#else
    for (; z > 127; z >>= 7) size++;
#endif
    return size;
}
static inline char *put_varint(char *p, int64_t value) {
    uint64_t z = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    for (; z > 127; z >>= 7) *p++ = (char)(z | 128);
    *p++ = (char)z;
    return p;
}
static inline const char *get_varint_of(const char *p, const char *end, int bits, int64_t *value) {
    uint64_t z = 0;
    for (int shift = 0; p < end && shift < bits; shift += 7) {
        uint64_t byte = (unsigned char)*p++;
        z |= (byte & 127) << shift;
        if (byte < 128) {
            if (bits < 64) z &= ((uint64_t)1 << bits) - 1; /* as in Java, which drops the bits of the last byte that have no room */
            *value = (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
            return p;
        }
    }
    return NULL;
}
/* Read a varint of one or two bytes, the size of nearly all varints; return NULL for any other. */
static inline const char *get_short_varint(const char *p, const char *end, int64_t *value) {
    uint32_t z;
    if (p < end && !(*p & 0x80)) {
        z = (unsigned char)*p++;
    } else if (end - p >= 2 && !(p[1] & 0x80)) {
        z = ((unsigned char)p[0] & 127u) | (uint32_t)(unsigned char)p[1] << 7;
        p += 2;
    } else {
        return NULL;
    }
    *value = (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
    return p;
}
static inline const char *get_varint(const char *p, const char *end, int64_t *value) { /* lengths, counts, offset deltas */
    const char *after = get_short_varint(p, end, value);
    if (after) return after;
    return get_varint_of(p, end, 32, value);
}
static inline const char *get_varlong(const char *p, const char *end, int64_t *value) { /* timestamp deltas */
    const char *after = get_short_varint(p, end, value);
    if (after) return after;
    return get_varint_of(p, end, 64, value);
}

/* ---- murmur2, exactly as in Kafka's Java client (org.apache.kafka.common.utils.Utils.murmur2) */

/* Inlined: the call would cost a keyed record 4 % of its CPU time. */
ALWAYS_INLINE int32_t murmur2_hash(const char *data, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    const uint32_t m = 0x5bd1e995u;
    uint32_t h = 0x9747b28cu ^ (uint32_t)size;
    for (; size >= 4; size -= 4, p += 4) {
        uint32_t k = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        k *= m, k ^= k >> 24, k *= m;
        h = h * m ^ k;
    }
    if (size > 2) h ^= (uint32_t)p[2] << 16;
    if (size > 1) h ^= (uint32_t)p[1] << 8;
    if (size > 0) h = (h ^ p[0]) * m;
    h ^= h >> 13, h *= m, h ^= h >> 15;
    return (int32_t)h;
}

/* ---- UTF-8 */

/* Return the length of the valid UTF-8 at `p`. Set `*bad` to the length of the invalid sequence after it, or 0. One U+FFFD replaces such a
   sequence, as Unicode recommends and as Java and Python do. */
static int64_t utf8_valid(const unsigned char *p, int64_t size, int *bad) {
    int64_t i = 0;
    *bad = 0;
    while (i < size) {
        unsigned char b = p[i], low = 0x80, high = 0xbf;
        int more = b < 0x80 ? 0 : b >= 0xc2 && b <= 0xdf ? 1 : b >= 0xe0 && b <= 0xef ? 2 : b >= 0xf0 && b <= 0xf4 ? 3 : -1;
        if (b == 0xe0) low = 0xa0;
        if (b == 0xed) high = 0x9f;
        if (b == 0xf0) low = 0x90;
        if (b == 0xf4) high = 0x8f;
        int n = 0;
        while (n < more && i + n + 1 < size && p[i + n + 1] >= low && p[i + n + 1] <= high) n++, low = 0x80, high = 0xbf;
        if (n != more) {
            *bad = n + 1;
            if (more < 0) *bad = 1;
            return i;
        }
        i += n + 1;
    }
    return i;
}

/* ---- the wall clock in milliseconds; the coarse clock costs 7 ns instead of 27, but steps only every few ms */

static inline int64_t wall_ms(void) {
    struct timespec t;
#ifdef _WIN32
    timespec_get(&t, TIME_UTC); /* a function of C11; Windows has no clock_gettime */
#elif defined(CLOCK_REALTIME_COARSE)
    clock_gettime(CLOCK_REALTIME_COARSE, &t);
#else
    clock_gettime(CLOCK_REALTIME, &t);
#endif
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
