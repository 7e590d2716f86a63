# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False, auto_pickle=False
"""Moves the bytes of one loop's sockets without the GIL. Invariant: of Kafka's protocol, the pump knows only the four bytes before a
frame; only the loop thread calls the pump, except for `abandon` in a forked child.

`run` is the one call of a turn that waits. Without the GIL it writes the queued buffers, waits, reads, and cuts frames, until it has news
for Python: a complete frame, the end of a connection, a finished dial, the end of a reported write, a wake-up, or the end of the timeout.
Then it raises the GIL flag (`pykafka4.gil`) until the next `run` or `shut`, because code of the turn may release the GIL. No other thread
touches the memory that `run` uses without the GIL: queues, connections and finished frames. A freed frame returns its block under the GIL;
the next `run` takes the block.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport ENOMEM, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from pykafka4.gil._gil cimport ask, got, pause, taken

import os

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "_pump.h" nogil:
    cdef struct epoll_data:
        void* ptr
    cdef struct epoll_event:
        uint32_t events
        epoll_data data
    enum: EPOLLIN, EPOLLOUT, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, EPOLL_CLOEXEC, EFD_NONBLOCK, EFD_CLOEXEC, AGAIN, BROKEN
    int epoll_create1(int)
    int eventfd(unsigned int, int)
    int close(int)
    ssize_t read(int, void*, size_t)
    ssize_t write(int, const void*, size_t)
    int64_t monotonic_us()
    ssize_t gather(int, iovec*, int)
    ssize_t receive(int, char*, size_t)
    int watch(int, int, int, uint32_t, void*)
    int wait_for(int, epoll_event*, int, int64_t)

cdef extern from *:
    """
    static inline int load_flag(int *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
    static inline int swap_flag(int *p, int value) { return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST); }
    static inline uint32_t big_endian(const char *s) {
        const unsigned char *p = (const unsigned char *)s;
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    """
    int load_flag(int*) nogil
    int swap_flag(int*, int) nogil
    uint32_t big_endian(const char*) nogil

cdef enum:
    SIZE = 4                       # bytes before a frame
    HEAD = 16                      # first bytes of a frame with a wrong size, by which the error may name the peer's protocol
    SCRATCH = 32768                # size of the read buffer; complete frames are cut out of it
    TURN_BYTES = 4194304           # bytes in a row after which a connection stops reading, or writing: the other connections must not wait
    TURN_FRAMES = 10000            # or this many frames: an empty frame takes four bytes on the wire, but hundreds of bytes in memory
    FIRST_PIECE = 4194304          # first block of a larger frame; it grows as bytes arrive: a wrong size alone takes little more than this
    MOST_PIECES = 64               # buffers of one system call; more are slower (measured)
    MOST_EVENTS = 64
    POOLED_FROM = 16384            # smaller frames become `bytes`, and their blocks go back to the C library
    POOL_BYTES = 8388608           # limit of the memory that is kept for later frames
    WRONG_SIZE = -1                # instead of an errno

OPEN, DIALLING, AWAITING = range(3)
FRAME, WRITTEN, LOST, DIALLED = range(4)
cdef int C_OPEN = 0, C_DIALLING = 1

cdef struct Block:                 # the memory of a frame
    Block* next
    void* connection
    size_t room, size

cdef inline char* bytes_of(Block* block) noexcept nogil:
    return <char*>block + sizeof(Block)

cdef struct Out:                   # the buffers of one `write`
    Out* next
    int count, at                  # number of pieces; index of the first piece that is not written completely
    bint report                    # Python waits for the end of this write
    iovec* pieces
    Py_buffer* views

cdef struct Conn:
    Conn* next                     # in the list of connections with news
    Conn* next_to_write
    int64_t link
    int fd, kind
    bint news, to_write, registered_out, dead, dialled, written
    int error                      # errno; 0 at the end of the stream; WRONG_SIZE after a wrong size of a frame
    Out* first
    Out* last
    Block* block                   # the frame that is partly read
    size_t filled, size
    char head[HEAD]
    int got                        # number of bytes in `head`: a part of the size; after a wrong size, the size and the start of the frame


include "_frames.pxi"
include "_waker.pxi"


# ---------------------------------------------------------------- the pump

@cython.final
@cython.no_gc                      # its members do not refer to it; and the collector would clear them before `__dealloc__` uses them
cdef class Pump:
    """The watched sockets of one loop, by link."""

    cdef readonly Waker waker
    cdef dict conns                # link -> address of its Conn
    cdef int epoll
    cdef bint woken, abandoned
    cdef bint asks                 # whether this pump has raised the GIL flag
    cdef int64_t max_frame
    cdef char* scratch
    cdef _Pool pool
    cdef Block* spare              # blocks that `run` may take without the GIL
    cdef size_t taken              # bytes of spare blocks that this `run` took or freed; `pool.total` counts them until the end of `run`
    cdef bint crowded              # whether the pool is more than half full
    cdef Block* frames             # finished frames, in order of arrival
    cdef Block** frames_end
    cdef size_t finished           # number of frames finished so far
    cdef Conn* with_news           # connections that were lost or dialled, or have written their buffers
    cdef Conn* to_write            # connections with buffers that were queued since the last `run`
    cdef Out* done                 # finished writes, whose buffers are released under the GIL

    def __cinit__(self, int64_t max_frame):
        self.max_frame = max_frame
        self.conns = {}
        self.pool = _Pool()
        self.frames_end = &self.frames
        self.epoll = -1
        self.scratch = <char*>malloc(SCRATCH)
        if self.scratch == NULL:
            raise MemoryError
        self.waker = Waker()
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll < 0 or watch(self.epoll, EPOLL_CTL_ADD, self.waker.fd, EPOLLIN, NULL) < 0:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        if not self.abandoned:     # in a forked child, these lists may be half changed by the parent's loop
            self.lower()
            self.free_all()
        if self.epoll >= 0:
            close(self.epoll)
        free(self.scratch)

    cdef void free_all(self):
        cdef Block* block
        for link in list(self.conns):
            self.remove(link)
        self.release_written()
        while self.frames != NULL:
            block = self.frames
            self.frames = block.next
            free(block)
        self.frames_end = &self.frames
        self.drop_spare()

    @property
    def kept(self) -> int:
        return self.pool.total

    def shut(self) -> None:
        """Forget all connections, and close the epoll set. The caller closes the sockets."""
        self.lower()
        self.free_all()
        if self.epoll >= 0:
            close(self.epoll)
            self.epoll = -1

    def abandon(self) -> None:
        """Close the descriptor in a forked child, and leave the connections alone."""
        self.abandoned = True
        self.asks = False          # `_gil` lowers the child's flag after the fork
        if self.epoll >= 0:
            close(self.epoll)
            self.epoll = -1

    # ------------------------------------------------------------ connections

    cdef Conn* find(self, object link) except? NULL:
        address = self.conns.get(link)
        return NULL if address is None else <Conn*><size_t>address

    def add(self, int64_t link, int fd, int kind) -> None:
        """Watch the socket: for reads and writes (OPEN), or for one event DIALLED when it is writable (DIALLING) or readable (AWAITING)."""
        cdef Conn* c
        self.remove(link)
        c = <Conn*>calloc(1, sizeof(Conn))
        if c == NULL:
            raise MemoryError
        c.link = link
        c.fd = fd
        c.kind = kind
        if watch(self.epoll, EPOLL_CTL_ADD, fd, EPOLLOUT if kind == C_DIALLING else EPOLLIN, c) < 0:
            error = errno
            free(c)
            raise OSError(error, os.strerror(error))
        try:
            self.conns[link] = <size_t>c
        except BaseException:
            watch(self.epoll, EPOLL_CTL_DEL, fd, 0, NULL)
            free(c)
            raise

    def remove(self, link) -> None:
        """Forget the connection, with its queued buffers and its frames that were read but not reported. The socket stays open."""
        cdef Conn* c = self.find(link)
        cdef Out* out
        if c == NULL:
            return
        del self.conns[link]
        watch(self.epoll, EPOLL_CTL_DEL, c.fd, 0, NULL)
        self.forget_frames(c)
        self.unlist(c)
        while c.first != NULL:
            out = c.first
            c.first = out.next
            release(out)
        free(c.block)
        free(c)

    cdef void forget_frames(self, Conn* c) noexcept:
        cdef Block** at = &self.frames
        cdef Block* block
        while at[0] != NULL:
            block = at[0]
            if block.connection == c:
                at[0] = block.next
                free(block)
            else:
                at = &block.next
        self.frames_end = at

    cdef void unlist(self, Conn* c) noexcept:
        cdef Conn** at = &self.with_news
        while at[0] != NULL:
            if at[0] == c:
                at[0] = c.next
            else:
                at = &at[0].next
        at = &self.to_write
        while at[0] != NULL:
            if at[0] == c:
                at[0] = c.next_to_write
            else:
                at = &at[0].next_to_write

    def write(self, link, buffers, bint report=False) -> None:
        """Queue the buffers; the next `run` begins to write them.

        With `report`, WRITTEN follows when everything is written, unless the connection is lost.
        """
        cdef Conn* c = self.find(link)
        cdef Out* out
        cdef Py_ssize_t n = len(buffers)
        if c == NULL or c.dead or (n == 0 and not report):
            return
        out = <Out*>calloc(1, sizeof(Out) + <size_t>n * (sizeof(iovec) + sizeof(Py_buffer)))
        if out == NULL:
            raise MemoryError
        out.views = <Py_buffer*>(out + 1)
        out.pieces = <iovec*>(out.views + n)
        out.report = report
        try:
            for buffer in buffers:
                PyObject_GetBuffer(buffer, out.views + out.count, PyBUF_SIMPLE)
                out.pieces[out.count].iov_base = out.views[out.count].buf
                out.pieces[out.count].iov_len = <size_t>out.views[out.count].len
                out.count += 1
        except BaseException:
            release(out)
            raise
        if c.last != NULL:
            c.last.next = out
        else:
            c.first = out
        c.last = out
        if not c.to_write:
            c.to_write = True
            c.next_to_write = self.to_write
            self.to_write = c

    # ------------------------------------------------------------ the stretch without the GIL

    cdef void tell(self, Conn* c) noexcept nogil:
        if not c.news:
            c.news = True
            c.next = self.with_news
            self.with_news = c

    cdef void lose(self, Conn* c, int error) noexcept nogil:
        c.dead = True
        c.error = error
        watch(self.epoll, EPOLL_CTL_DEL, c.fd, 0, NULL)
        self.tell(c)

    cdef void watch_writing(self, Conn* c, bint wanted) noexcept nogil:
        if c.registered_out != wanted:
            c.registered_out = wanted
            watch(self.epoll, EPOLL_CTL_MOD, c.fd, EPOLLIN | EPOLLOUT if wanted else EPOLLIN, c)

    cdef void flush(self, Conn* c) noexcept nogil:
        cdef Out* out
        cdef ssize_t n
        cdef int64_t budget = TURN_BYTES
        while c.first != NULL and budget > 0:
            out = c.first
            n = gather(c.fd, out.pieces + out.at, min(out.count - out.at, MOST_PIECES))
            if n == BROKEN:
                self.lose(c, errno)
                return
            if n == AGAIN:
                break
            budget -= n
            while out.at < out.count and <size_t>n >= out.pieces[out.at].iov_len:
                n -= <ssize_t>out.pieces[out.at].iov_len
                out.at += 1
            if out.at < out.count:
                out.pieces[out.at].iov_base = <char*>out.pieces[out.at].iov_base + n
                out.pieces[out.at].iov_len -= <size_t>n
                continue
            if out.report:
                c.written = True
            c.first = out.next
            out.next = self.done
            self.done = out
        if c.first == NULL:
            c.last = NULL
            if c.written:
                self.tell(c)
        self.watch_writing(c, c.first != NULL)

    cdef Block* obtain(self, size_t size) noexcept nogil:
        """Return a block for `size` bytes, or for the first piece of a larger frame. NULL if there is no memory."""
        cdef Block** at = &self.spare
        cdef Block* block
        cdef size_t room = size
        if size >= POOLED_FROM:
            room = min(size, <size_t>FIRST_PIECE)
            while at[0] != NULL:
                block = at[0]
                if block.room >= room and block.room <= 2 * room:
                    at[0] = block.next
                    self.taken += block.room
                    return block
                at = &block.next
            if self.crowded:       # the sizes of frames have changed: no spare block fits, and the pool may have no room for new blocks
                self.drop_spare()
            room = (room + (room >> 3) + 4095) & ~<size_t>4095   # an eighth more, in complete pages: later frames of similar sizes fit
        block = <Block*>malloc(sizeof(Block) + room)
        if block != NULL:
            block.room = room
        return block

    cdef void drop_spare(self) noexcept nogil:
        cdef Block* block
        while self.spare != NULL:
            block = self.spare
            self.spare = block.next
            self.taken += block.room
            free(block)

    cdef void begin(self, Conn* c, size_t size, const char* data, size_t n) noexcept nogil:
        """Begin a frame of `size` bytes with the first `n` of them."""
        c.block = self.obtain(size)
        if c.block == NULL:
            self.lose(c, ENOMEM)
            return
        c.size = size
        c.filled = n
        memcpy(bytes_of(c.block), data, n)
        if n == size:
            self.finish(c)

    cdef void finish(self, Conn* c) noexcept nogil:
        c.block.size = c.size
        c.block.connection = c
        c.block.next = NULL
        self.finished += 1
        self.frames_end[0] = c.block
        self.frames_end = &c.block.next
        c.block = NULL

    cdef void cut(self, Conn* c, const char* p, size_t n) noexcept nogil:
        cdef size_t take, size
        while n and not c.dead:
            take = min(n, <size_t>(SIZE - c.got))
            memcpy(c.head + c.got, p, take)
            c.got += <int>take
            p += take
            n -= take
            if c.got < SIZE:
                return
            size = big_endian(c.head)
            if size > <size_t>self.max_frame:     # also a negative size, which is read as unsigned
                take = min(n, <size_t>(HEAD - SIZE))
                memcpy(c.head + SIZE, p, take)
                c.got = SIZE + <int>take
                self.lose(c, WRONG_SIZE)
                return
            c.got = 0
            take = min(n, size)
            self.begin(c, size, p, take)
            p += take
            n -= take
            if c.block != NULL:
                return

    cdef bint grow(self, Conn* c) noexcept nogil:
        """Lengthen the full block of a frame. If there is no memory, lose the connection and return False."""
        cdef size_t room = min(c.size, 2 * c.block.room)
        cdef Block* block = <Block*>realloc(c.block, sizeof(Block) + room)
        if block == NULL:
            self.lose(c, ENOMEM)
            return False
        block.room = room
        c.block = block
        return True

    cdef void fill(self, Conn* c) noexcept nogil:
        """Read the bytes that have arrived; bytes of a begun frame go straight into its block."""
        cdef ssize_t n
        cdef size_t room
        cdef int64_t budget = TURN_BYTES
        cdef size_t limit = self.finished + TURN_FRAMES
        while budget > 0 and self.finished < limit and not c.dead:
            if c.block == NULL:
                room = SCRATCH
                n = receive(c.fd, self.scratch, room)
            else:
                if c.filled == c.block.room and not self.grow(c):
                    return
                room = min(c.size, c.block.room) - c.filled
                n = receive(c.fd, bytes_of(c.block) + c.filled, room)
            if n == AGAIN:
                return
            if n == BROKEN or n == 0:
                self.lose(c, errno if n == BROKEN else 0)
                return
            budget -= n
            if c.block == NULL:
                self.cut(c, self.scratch, <size_t>n)
            else:
                c.filled += <size_t>n
                if c.filled == c.size:
                    self.finish(c)
            if <size_t>n < room:
                return

    cdef void handle(self, Conn* c, uint32_t events) noexcept nogil:
        if c.dead:
            return
        if c.kind != C_OPEN:
            c.dialled = True
            watch(self.epoll, EPOLL_CTL_DEL, c.fd, 0, NULL)
            self.tell(c)
            return
        if events & EPOLLOUT:
            self.flush(c)
        if events & ~<uint32_t>EPOLLOUT and not c.dead:
            self.fill(c)

    cdef void stretch(self, int64_t timeout) noexcept nogil:
        """Move bytes until there is news, up to `timeout` microseconds."""
        cdef epoll_event events[MOST_EVENTS]
        cdef Conn* c
        cdef uint64_t count
        cdef int i, n
        cdef int64_t left = timeout
        cdef int64_t end = monotonic_us() + timeout
        while self.to_write != NULL:
            c = self.to_write
            self.to_write = c.next_to_write
            c.to_write = False
            if not c.dead and not c.registered_out:
                self.flush(c)
        while True:
            if self.frames != NULL or self.with_news != NULL:
                left = 0           # check the sockets once, without a wait
            n = wait_for(self.epoll, events, MOST_EVENTS, left)
            for i in range(n):
                if events[i].data.ptr == NULL:
                    read(self.waker.fd, &count, 8)
                    self.woken = True
                else:
                    self.handle(<Conn*>events[i].data.ptr, events[i].events)
            if self.frames != NULL or self.with_news != NULL or self.woken:
                return
            left = end - monotonic_us()
            if left <= 0:
                return

    cdef void pace(self) noexcept nogil:
        """Leave the GIL for a while to a computing thread that gave way a moment ago, then read the bytes that have arrived meanwhile."""
        if pause():
            self.stretch(0)

    # ------------------------------------------------------------ a turn

    def run(self, double timeout) -> list:
        """Return the events as (kind, link, payload), after a wait of up to `timeout` seconds, which events or a wake-up end.

        The payload of LOST is (reason, whether the end came inside a frame). The reason is an errno, 0 at the end of the stream, or the
        start of a frame with a wrong size."""
        cdef list out = []
        cdef int64_t us = <int64_t>(timeout * 1e6)
        self.restock()
        self.lower()
        with nogil:
            self.woken = False
            self.stretch(us)
            swap_flag(&self.waker.sleeping, 0)
            self.pace()
            ask()
            self.asks = True
        taken()
        self.pool.total -= self.taken
        self.taken = 0
        self.release_written()
        self.collect(out)
        return out

    cdef void lower(self) noexcept:
        """Lower the GIL flag if this pump has raised it."""
        if self.asks:
            self.asks = False
            got()

    cdef void restock(self) noexcept:
        """Move the returned blocks from the pool to the spare blocks."""
        cdef Block* last = self.pool.blocks
        if last != NULL:
            while last.next != NULL:
                last = last.next
            last.next = self.spare
            self.spare, self.pool.blocks = self.pool.blocks, NULL
        self.crowded = self.pool.total > POOL_BYTES // 2

    cdef void release_written(self):
        cdef Out* out
        while self.done != NULL:
            out = self.done
            self.done = out.next
            release(out)

    cdef int collect(self, list out) except -1:
        cdef Frame frame
        cdef Block* block
        cdef Conn* c
        while self.frames != NULL:
            block = self.frames
            link = (<Conn*>block.connection).link
            if block.size < POOLED_FROM:
                payload = PyBytes_FromStringAndSize(bytes_of(block), <Py_ssize_t>block.size)  # `bytes` decode faster
            else:
                frame = Frame.__new__(Frame)
                frame.pool = self.pool
                payload = frame
            self.frames = block.next
            if block.next == NULL:
                self.frames_end = &self.frames
            if block.size < POOLED_FROM:
                free(block)
            else:
                frame.block = block
            out.append((FRAME, link, payload))
        while self.with_news != NULL:
            c = self.with_news
            self.with_news = c.next
            c.news = False
            if c.dialled:
                c.dialled = False
                out.append((DIALLED, c.link, None))
            if c.written:
                c.written = False
                if not c.dead:
                    out.append((WRITTEN, c.link, None))
            if c.dead:
                reason = PyBytes_FromStringAndSize(c.head, c.got) if c.error == WRONG_SIZE else c.error
                out.append((LOST, c.link, (reason, c.error != WRONG_SIZE and (c.block != NULL or c.got > 0))))
        return 0


cdef void release(Out* out):
    """Call this with the GIL, because it may free the owner of a buffer, whose destructor then runs."""
    while out.count:
        out.count -= 1
        PyBuffer_Release(out.views + out.count)
    free(out)
