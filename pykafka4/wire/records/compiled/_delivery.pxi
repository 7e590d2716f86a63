# Defines the handle of an accepted record, and runs callbacks. Invariant: no callback runs twice, and a handle does not keep the bytes of
# an acknowledged batch alive.


@cython.final
cdef class Settlement:
    """Runs the callbacks of a batch, once. The batch's memory stays reserved until they return, so slow ones can make `send` wait."""

    cdef Batch batch
    cdef list callbacks, extras
    cdef Meta* meta

    def __dealloc__(self):
        free(self.meta)

    cdef void take(self, Batch batch):
        self.batch = batch
        self.callbacks, batch.callbacks = batch.callbacks, None
        self.extras, batch.extras = batch.extras, None
        self.meta, batch.meta = batch.meta, NULL
        batch.metas = 0

    def __call__(self):
        cdef Batch batch = self.batch
        cdef Accumulator acc
        if batch is None:
            return
        self.batch = None
        acc = batch.acc
        try:
            self.run(batch, acc)
        finally:
            batch.settle()
            if acc is not None:
                acc.nudge()

    cdef void run(self, Batch batch, Accumulator acc):
        """Call the callbacks. If one of them forks, the remaining ones run in the parent only."""
        cdef Delivery d
        cdef int32_t i
        if self.callbacks is not None:
            for i in range(<int32_t>len(self.callbacks)):
                callback = self.callbacks[i]
                if callback is not None:
                    self.callbacks[i] = None
                    d = Delivery.__new__(Delivery)
                    d.batch = batch
                    d.index = i
                    d.timestamp = self.meta[i].timestamp
                    d.key_size = self.meta[i].key_size
                    d.value_size = self.meta[i].value_size
                    call_back(batch.hooks, callback, d)
                    if acc is not None and acc.refusal is not None and isinstance(acc.refusal, ForkedClientError):
                        return
        for pair in self.extras or ():
            call_back(batch.hooks, pair[1], pair[0])
            if acc is not None and isinstance(acc.refusal, ForkedClientError):
                return
        self.callbacks = self.extras = None


cdef void call_back(Hooks hooks, object function, Delivery d):
    try:
        if wanted:
            step_aside()
        function(d)
    except BaseException:          # one failing callback must not keep the others from being called
        _log.exception("%s: the delivery callback %r for topic %s raised an exception", hooks.client_id, function, d.topic)


cdef extern from *:
    """
    /* Return 1 if a call of `function` only makes a coroutine or async generator, 0 if not, -1 if `checked_callback` must decide. */
    static int makes_coroutine(PyObject *function) {
        if (PyMethod_Check(function)) function = PyMethod_GET_FUNCTION(function);
        if (PyFunction_Check(function))
            return (((PyCodeObject *)PyFunction_GET_CODE(function))->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
        return PyCFunction_Check(function) ? 0 : -1;
    }
    """
    int makes_coroutine(object)


cdef inline int check_callback(str topic, str what, object function) except -1:
    """Raise TypeError if `function` is not callable, or is an async function. For a plain function, only its flags are read."""
    cdef int kind = makes_coroutine(function)
    if kind < 0 and type(function) is partial:
        kind = makes_coroutine(function.func)
    if kind:
        checked_callback(topic, what, function)
    return 0


@cython.final
@cython.no_gc                      # millions may exist: the garbage collector must not traverse them
@cython.freelist(4096)
cdef class Delivery:
    """The handle that `send` returns: a promise of one record's outcome."""

    cdef Batch batch
    cdef int64_t timestamp
    cdef int32_t index, key_size, value_size

    cdef inline Batch home(self):
        """The batch that has the record, even after splits. Raises RuntimeError if the record was not accepted."""
        if self.batch is None:
            raise RuntimeError("this record was not accepted: its send raised an exception")
        while self.batch.state == S_SPLIT:
            self.descend()
        return self.batch

    cdef void descend(self) noexcept:
        """Move to the part that has the record. Allocates nothing: `Batch.divide` relies on that."""
        cdef list parts = self.batch.parts
        cdef Py_ssize_t i = PyList_GET_SIZE(parts)
        cdef int32_t start
        cdef tuple run
        while i > 0:
            i -= 1
            run = <tuple>PyList_GET_ITEM(parts, i)
            start = run[0]
            if self.index >= start:
                self.index += <int32_t>run[1] - start
                self.batch = <Batch>run[2]
                return

    @property
    def topic(self) -> str:
        """The record's topic."""
        return self.home().topic

    @property
    def partition(self):
        """The record's partition; None until one is chosen."""
        cdef int32_t partition = self.home().partition
        return partition if partition >= 0 else None

    @property
    def timestamp_ms(self) -> int:
        """The record's own timestamp."""
        return self.timestamp

    def done(self) -> bool:
        """Whether there is an outcome."""
        return self.home().state >= S_ACKED

    @property
    def settled(self) -> bool:
        """Whether there is an outcome and the callbacks of the batch have returned."""
        return self.home()._settled

    cdef int await_outcome(self, timeout) except -1:
        cdef Hooks hooks
        if self.home().state >= S_ACKED:
            return 0
        hooks = self.batch.hooks
        if not hooks.wait(self.done, timeout):
            where = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
            raise KafkaTimeoutError(f"{where}: not acknowledged within {timeout:g} s; it is still being sent, and Producer.status() says why")
        return 0

    cdef int see(self) except -1:
        """Count the failure as seen by the application, unless the record was dropped."""
        cdef Batch b = self.batch
        if b.dropped:              # the application asked for the drop: the end of its `with` block does not raise it as a failure
            return 0
        if b.seen_failures is None:
            b.seen_failures = set()
        if self.index not in b.seen_failures:
            b.seen_failures.add(self.index)
            if b.hooks.failure_seen is not None:
                b.hooks.failure_seen(b.failed_before)
        return 0

    cdef object failure(self):
        cdef Batch b = self.batch
        if b.dropped:
            return DeliveryFailed(b.topic, self.partition, b.code, b.outcome_written, None, fresh(b.cause))
        self.see()
        return DeliveryFailed(b.topic, self.partition, b.code, b.outcome_written, b.record(self.index), fresh(b.cause))

    def result(self, timeout=None):
        """Wait until the record is acknowledged; return its offset and partition (`RecordMetadata`).

        `timeout` is in seconds, None for no limit. Raises KafkaTimeoutError when that time has passed, DeliveryFailed if the record failed,
        ForkedClientError in a forked child if the record had no outcome before the fork.
        """
        self.await_outcome(timeout)
        cdef Batch b = self.home()
        if b.state == S_FAILED:
            raise self.failure()
        return RecordMetadata(
            b.topic,
            b.partition,
            b.base_offset + self.index if b.base_offset >= 0 else -1,
            b.append_time if b.append_time >= 0 else self.timestamp,
            self.key_size,
            self.value_size,
            b.maybe_repeated,
        )

    def exception(self, timeout=None):
        """The DeliveryFailed of a failed record, None for an acknowledged record; waits as `result` does."""
        self.await_outcome(timeout)
        return self.failure() if self.home().state == S_FAILED else None

    def lost(self) -> list:
        """A list with the record if it failed, was not dropped and can be decoded; otherwise []. The failure is not counted as seen."""
        cdef Batch b = self.home()
        found = b.record(self.index) if b.state == S_FAILED and not b.dropped else None
        return [] if found is None else [found]

    def add_done_callback(self, fn) -> None:
        """Call `fn(delivery)` once, on the callback executor, when there is an outcome (at once if there is one already)."""
        cdef Batch b = self.home()
        cdef list pairs = []       # before the state is read: an allocation may run the garbage collector, and thus any Python code
        cdef object pair = (self, fn)
        check_callback(b.topic, "a callback", fn)
        b = self.home()
        if b.state >= S_ACKED:
            b.hooks.submit(lambda: call_back(b.hooks, fn, self))
        elif isinstance(b.acc.refusal, ForkedClientError):
            b.acc.refuse()         # no outcome arrives in this process
        elif b.partition == PARKING:
            follow_parked(b.acc, b.home, self, pair, pairs)
        else:
            if b.extras is None:
                b.extras = pairs
            b.extras.append(pair)

    def __await__(self):
        return self.home().hooks.awaiting(self)

    def __repr__(self):
        if self.batch is None:
            return "<Delivery of a record that was not accepted>"
        cdef Batch b = self.home()
        if b.partition == PARKING:
            return f"<Delivery {b.topic} waiting for a partition>"
        return f"<Delivery {b.topic}-{b.partition} {state_name(b.state)}>" if b.partition >= 0 else f"<Delivery {b.topic} {state_name(b.state)}>"
