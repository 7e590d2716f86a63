# Memory of batches. Rule: no byte of it is used again while anybody can still read it.
#
# A transport may hold a batch's bytes long after the batch was given up (its delivery timeout was over while the request was being
# written). Memory recycled then would be sent as somebody else's records, to the wrong topic, with a good checksum. So the bytes lie
# in counted blocks: one count for the batch, one for each buffer export.


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
cdef class Lease:
    """The uncompressed records of a batch, readable as a buffer for as long as somebody holds it."""

    cdef Batch batch
    cdef Block* block
    cdef int32_t size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, bytes_of(self.block) + HEADER, self.size, 1, flags)

    def __dealloc__(self):
        if self.block != NULL:
            if self.batch is not None:
                self.batch.drop(self.block)
            else:                  # the collector cleared us first
                release(self.block)
