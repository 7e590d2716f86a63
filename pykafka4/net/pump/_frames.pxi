# Keeps frames in blocks of memory, and reuses the blocks. Invariant: at any time, a block belongs to a frame, to the pool, or to the pump.

@cython.final
cdef class _Pool:
    """The blocks of freed frames, for reuse, because fresh pages cost time."""

    cdef Block* blocks             # returned blocks, last in, first out; touched under the GIL only
    cdef size_t total              # bytes of these blocks and of the pump's spare blocks

    def __dealloc__(self):
        cdef Block* block = self.blocks
        while block != NULL:
            self.blocks = block.next
            free(block)
            block = self.blocks


@cython.final
@cython.no_gc                      # the collector never clears it, so that a chunk may rely on it
cdef class Frame:
    """A frame without its size. Supports the buffer protocol, read only."""

    cdef Block* block
    cdef _Pool pool

    def __getbuffer__(self, Py_buffer* view, int flags):
        if self.block == NULL:
            raise BufferError("only a pump makes frames")
        PyBuffer_FillInfo(view, self, bytes_of(self.block), <Py_ssize_t>self.block.size, 1, flags)

    def __len__(self):
        return <Py_ssize_t>self.block.size if self.block != NULL else 0

    def __dealloc__(self):
        cdef Block* block = self.block
        if block == NULL:
            return
        if self.pool.total + block.room > POOL_BYTES:
            free(block)
        else:
            block.next = self.pool.blocks
            self.pool.blocks = block
            self.pool.total += block.room
