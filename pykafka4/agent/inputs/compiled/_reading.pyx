# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False, auto_pickle=False
"""Reads datagrams with recvmmsg, and cuts frames. Invariant: the results equal the results of `agent.inputs.plain`.

Code without the GIL uses only the C memory of one reader, so two threads must not call a reader at once.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp

import os

from pykafka4.agent.message import Reason, Refused

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "<sys/socket.h>" nogil:
    cdef struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    cdef struct mmsghdr:
        msghdr msg_hdr
        unsigned int msg_len
    enum: MSG_DONTWAIT
    int recvmmsg(int, mmsghdr*, unsigned int, int, void*)

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)

cdef extern from *:
    """
    static inline uint16_t big16(const unsigned char *p) { return (uint16_t)(p[0] << 8 | p[1]); }
    static inline uint32_t big32(const unsigned char *p) {
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    static inline uint64_t big64(const unsigned char *p) { return (uint64_t)big32(p) << 32 | big32(p + 4); }
    """
    uint16_t big16(const unsigned char*) nogil
    uint32_t big32(const unsigned char*) nogil
    uint64_t big64(const unsigned char*) nogil

cdef enum:
    BUFFER_BYTES = 4194304         # room for a reader's datagrams
    MOST = 64                      # datagrams in one call
    ANY_PARTITION = 256
    PARTITION_KEY = 257
    HEAD = 10                      # size, API key, version, flags
    SMALLEST = 8                   # size, API key, version: every message is longer
    SIZE = 4
    NAMES = 1024                   # topics whose names are kept; a power of two
    LONGEST_NAME = 249             # bytes; Kafka's limit for topic names: longer names are not kept

cdef enum Verdict:
    GOOD, MALFORMED, API_KEY, VERSION

cdef object REASONS = (None, Reason.MALFORMED, Reason.API_KEY, Reason.VERSION)

# ---------------------------------------------------------------- names of topics

cdef list name_bytes = [None] * NAMES   # as clients wrote them; the index is a hash of the bytes
cdef list name_texts = [None] * NAMES


cdef object name_of(const unsigned char* p, Py_ssize_t size):
    """Return the topic's name. Equal bytes give the same object, unless the name is too long to keep, or another name replaced it."""
    cdef uint32_t number = 2166136261u
    cdef Py_ssize_t i
    if size > LONGEST_NAME:
        return PyUnicode_DecodeUTF8(<const char*>p, size, "backslashreplace")
    for i in range(size):
        number = (number ^ p[i]) * <uint32_t>16777619u
    number = (number ^ (number >> 15)) & (NAMES - 1)
    known = name_bytes[number]
    if known is not None and PyBytes_GET_SIZE(known) == size and memcmp(PyBytes_AS_STRING(known), p, <size_t>size) == 0:
        return name_texts[number]
    name = PyUnicode_DecodeUTF8(<const char*>p, size, "backslashreplace")
    name_bytes[number] = PyBytes_FromStringAndSize(<const char*>p, size)
    name_texts[number] = name
    return name


# ---------------------------------------------------------------- a message

cdef struct Found:                 # where the parts of a message are
    const unsigned char* topic
    const unsigned char* key
    const unsigned char* value
    int32_t topic_size, key_size, value_size
    bint has_partition_key
    uint32_t partition_key
    int64_t timestamp
    int detail                     # the unsupported API key or version


cdef Verdict find(const unsigned char* p, Py_ssize_t size, Found* found) noexcept nogil:
    """Find the parts of a message. Each number is read only after a check that its bytes exist; `left` is never negative."""
    cdef Py_ssize_t left = size
    cdef int16_t api_key, version, topic_size
    if size <= SMALLEST or <int32_t>big32(p) != size:
        return MALFORMED
    api_key, version = <int16_t>big16(p + 4), <int16_t>big16(p + 6)
    if api_key != ANY_PARTITION and api_key != PARTITION_KEY:
        found.detail = api_key
        return API_KEY
    if version != 0:
        found.detail = version
        return VERSION
    if size < HEAD or big16(p + 8) != 0:
        return MALFORMED
    p += HEAD
    left -= HEAD
    found.has_partition_key = api_key == PARTITION_KEY
    found.partition_key = 0
    if found.has_partition_key:
        if left < 4:
            return MALFORMED
        found.partition_key = big32(p)
        p += 4
        left -= 4
    if left < 2:
        return MALFORMED
    topic_size = <int16_t>big16(p)
    if topic_size <= 0 or left - 2 < topic_size:
        return MALFORMED
    found.topic, found.topic_size = p + 2, topic_size
    p += 2 + topic_size
    left -= 2 + topic_size
    if left < 8:
        return MALFORMED
    found.timestamp = <int64_t>big64(p)
    p += 8
    left -= 8
    if left < 4:
        return MALFORMED
    found.key_size = <int32_t>big32(p)
    if found.key_size < 0 or left - 4 < found.key_size:
        return MALFORMED
    found.key = p + 4
    p += 4 + found.key_size
    left -= 4 + found.key_size
    if left < 4:
        return MALFORMED
    found.value_size = <int32_t>big32(p)
    if found.value_size != left - 4:
        return MALFORMED
    found.value = p + 4
    return GOOD


cdef inline object content(const unsigned char* p, int32_t size, object empty):
    return PyBytes_FromStringAndSize(<const char*>p, size) if size else empty


cdef int take(const unsigned char* p, Py_ssize_t size, object empty, list messages, list refused) except -1:
    """Append the message to `messages`, or its bytes to `refused`."""
    cdef Found found
    cdef Verdict verdict
    found.detail = 0
    verdict = find(p, size, &found)
    if verdict == GOOD:
        partition_key = found.partition_key if found.has_partition_key else None
        value = content(found.value, found.value_size, empty)
        key = content(found.key, found.key_size, empty)
        messages.append((name_of(found.topic, found.topic_size), value, key, partition_key, found.timestamp))
    else:
        refuse(p, size, verdict, found.detail, refused)
    return 0


cdef int refuse(const unsigned char* p, Py_ssize_t size, Verdict verdict, int detail, list refused) except -1:
    reason = REASONS[<int>verdict]
    why = Refused(reason) if verdict == MALFORMED else Refused(reason, detail)
    refused.append((PyBytes_FromStringAndSize(<const char*>p, size), why))
    return 0


# ---------------------------------------------------------------- datagrams

@cython.final
cdef class DatagramReader:
    """See `agent.inputs.plain`."""

    cdef readonly int most
    cdef Py_ssize_t max_size
    cdef object empty
    cdef unsigned char* buffer
    cdef iovec* pieces
    cdef mmsghdr* heads

    def __cinit__(self, Py_ssize_t max_size, empty):
        cdef Py_ssize_t room = max_size + 1
        cdef int i
        if max_size < 0:
            raise ValueError("max_size is negative")
        self.max_size, self.empty = max_size, empty
        self.most = <int>max(1, min(MOST, BUFFER_BYTES // room))
        self.buffer = <unsigned char*>malloc(<size_t>(self.most * room))
        self.pieces = <iovec*>calloc(<size_t>self.most, sizeof(iovec))
        self.heads = <mmsghdr*>calloc(<size_t>self.most, sizeof(mmsghdr))
        if self.buffer == NULL or self.pieces == NULL or self.heads == NULL:
            raise MemoryError
        for i in range(self.most):
            self.pieces[i].iov_base = self.buffer + i * room
            self.pieces[i].iov_len = <size_t>room
            self.heads[i].msg_hdr.msg_iov = self.pieces + i
            self.heads[i].msg_hdr.msg_iovlen = 1

    def __dealloc__(self):
        free(self.buffer)
        free(self.pieces)
        free(self.heads)

    def read(self, sock) -> tuple:
        cdef int fd = sock.fileno()
        cdef int count, i
        cdef Py_ssize_t size, total = 0
        cdef list messages = []
        cdef list refused = []
        with nogil:
            count = recvmmsg(fd, self.heads, <unsigned int>self.most, MSG_DONTWAIT, NULL)
            while count < 0 and errno == EINTR:
                count = recvmmsg(fd, self.heads, <unsigned int>self.most, MSG_DONTWAIT, NULL)
        if count < 0:
            error = errno
            if error != EAGAIN:
                raise OSError(error, os.strerror(error))
            count = 0
        for i in range(count):
            size = self.heads[i].msg_len
            total += size
            if size > self.max_size:
                refuse(<unsigned char*>self.pieces[i].iov_base, size, MALFORMED, 0, refused)
            else:
                take(<unsigned char*>self.pieces[i].iov_base, size, self.empty, messages, refused)
        return count, total, messages, refused


# ---------------------------------------------------------------- frames

def cut_frames(data, Py_ssize_t end, Py_ssize_t max_size, empty) -> tuple:
    """See `agent.inputs.plain`."""
    cdef Py_buffer view
    cdef Py_ssize_t at = 0
    cdef int32_t size
    cdef bint wrong = False
    cdef const unsigned char* p
    cdef list messages = []
    cdef list refused = []
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if end < 0 or end > view.len:
            raise ValueError("end is outside the data")
        p = <const unsigned char*>view.buf
        while end - at >= SIZE:
            size = <int32_t>big32(p + at)
            if size < SIZE or size - SIZE > max_size:
                wrong = True
                break
            if end - at < size:
                break
            take(p + at, size, empty, messages, refused)
            at += size
    finally:
        PyBuffer_Release(&view)
    return at, wrong, messages, refused
