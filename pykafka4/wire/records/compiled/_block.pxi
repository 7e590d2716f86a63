# Counts references to the memory of batches. Invariant: no byte is reused while a socket may still read it.
#
# A socket may hold a batch's bytes long after the batch has failed, if the delivery timeout expired while the request was being written.
# If the memory were reused, the request could send other records, to the wrong topic, with a valid checksum. So the bytes are in
# reference-counted blocks: one reference for the batch, one for each buffer export, one for each `RecordsBuffer`.


cdef struct Block:
    int32_t refs
    int32_t cap                    # bytes that follow the head


cdef inline char* bytes_of(Block* block) noexcept nogil:
    return <char*>block + BLOCK_HEAD


cdef inline void release(Block* block) noexcept nogil:
    block.refs -= 1
    if block.refs == 0:
        free(block)


@cython.final
cdef class RecordsBuffer:
    """The uncompressed records of a batch, as a buffer that keeps their block alive even if the batch fails meanwhile."""

    cdef Batch batch
    cdef Block* block
    cdef int32_t size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, bytes_of(self.block) + HEADER, self.size, 1, flags)

    def __dealloc__(self):
        if self.block != NULL:
            if self.batch is not None:
                self.batch.drop(self.block)
            else:                  # the garbage collector has cleared `batch` first
                release(self.block)
