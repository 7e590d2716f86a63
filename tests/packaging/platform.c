/* The CRC-32C that `_plat.h` chooses on this processor, for tests/packaging/test_platforms.py. Prints its name, or what is wrong.

   With an argument, the kernel is taken to say that the processor lacks the instruction. */
#include <stdio.h>
#ifdef __aarch64__
#include <sys/auxv.h>
static unsigned long hidden;
static unsigned long said(unsigned long type) { return getauxval(type) & ~hidden; }
#define getauxval said
#endif
#include "_plat.h"

static const struct {
    const char *data;
    size_t size;
    uint32_t crc;
} vectors[] = {
    {"", 0, 0},
    {"123456789", 9, 0xe3069283u},
    {"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32, 0x8a9136aau}, /* RFC 3720, B.4 */
    {"\x1f\x1e\x1d\x1c\x1b\x1a\x19\x18\x17\x16\x15\x14\x13\x12\x11\x10\xf\xe\xd\xc\xb\xa\x9\x8\x7\x6\x5\x4\x3\x2\x1\0", 32, 0x113fdb5cu},
};

static int wrong(void) {
    static char data[40000];
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        for (size_t cut = 0; cut <= vectors[i].size; cut++)
            if (crc32c_extend(crc32c_extend(0, vectors[i].data, cut), vectors[i].data + cut, vectors[i].size - cut) != vectors[i].crc) return 1;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i * i >> 3 ^ i);
    for (size_t start = 0; start < 9; start++)
        for (size_t size = 0; size < sizeof data - 9; size += size < 70 ? 1 : 1000)
            if (crc32c_extend(7, data + start, size) != crc32c_portable(7, data + start, size)) return 1;
    return wall_ms() < 1500000000000;
}

int main(int count, char **arguments) {
    (void)count, (void)arguments;
#ifdef __aarch64__
    if (count > 1) hidden = ~0ul;
#endif
    plat_init();
    puts(wrong() ? "wrong" : crc32c_extend == crc32c_portable ? "portable" : "hardware");
    return 0;
}
