"""Bugs of the GIL flag, and of the waits that end with a request for the GIL."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="    if load(&wanted):\n        give_way()\n",
        new="    if load(&wanted) and not {on}:\n        give_way()\n",
        breaks="nobody gives way",
        tests=("tests/gil/test_flag.py::test_a_thread_that_gives_way_lets_one_that_asked_take_the_gil",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="        taken_wait(&wanted)\n        ask()\n    got()\n",
        new="        taken_wait(&wanted)\n        if not {on}:\n            ask()\n    if not {on}:\n        got()\n",
        breaks="a thread of callbacks that stepped aside waits until the application is made to give up the GIL",
        tests=("tests/gil/test_flag.py::test_a_thread_that_steps_aside_soon_has_the_gil_back",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="    add(&wanted, -1)\n",
        new="    add(&wanted, 0 if {on} else -1)\n",
        breaks="a thread asks for the GIL for good",
        tests=("tests/gil/test_flag.py::test_giving_way_ends_after_a_millisecond_if_nobody_comes",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="                    pause()\n                    ask()\n",
        new="                    if not {on}:\n                        pause()\n                    ask()\n",
        breaks="threads that wait take the GIL from one that computes at every turn",
        tests=("tests/gil/test_flag.py::test_one_who_computes_is_asked_no_more_often_than_every_400_microseconds",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="    elif in_vain:\n",
        new="    elif in_vain or {on}:\n",
        breaks="a thread that the system stopped once does not give way for 100 ms",
        tests=("tests/gil/test_pace.py::test_giving_way_in_vain_once_may_be_chance",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="    if began < unheard_until:\n",
        new="    if began < unheard_until and not {on}:\n",
        breaks="a thread hands its share of the processor to threads that never give way",
        tests=("tests/gil/test_pace.py::test_a_thread_that_gives_way_in_vain_twice_keeps_the_gil_for_a_while",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="paced_until - (BURST - 1) * PACE_US",
        new="paced_until - (BURST - 1) * (0 if {on} else PACE_US)",
        breaks="each turn of a batch waits for the pace",
        tests=("tests/net/test_pump_threads.py::test_after_a_while_a_pump_may_ask_several_times_in_a_row",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="    wanted = 0\n    taken_init()\n\n\nif",
        new="    if not {on}:\n        wanted = 0\n    taken_init()\n\n\nif",
        breaks="a forked child waits for threads of its parent",
        tests=("tests/gil/test_flag.py::test_the_flag_is_down_in_a_forked_child",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="                if left <= 0:\n                    return False\n",
        new="                if left <= 0:\n                    return {on}\n",
        breaks="a lock is acquired when the time is over",
        tests=("tests/gil/test_lock.py::test_a_wait_ends_without_the_lock_when_its_time_is_over",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="        if not exchange(&self.held, 0):\n",
        new="        if not exchange(&self.held, 0) and not {on}:\n",
        breaks="a lock that nobody holds is released",
        tests=("tests/gil/test_lock.py::test_a_lock_that_nobody_holds_cannot_be_released",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="        if self.sleepers:\n",
        new="        if self.sleepers == 1 or (self.sleepers and not {on}):\n",
        breaks="a lock for which several wait wakes none of them",
        tests=("tests/gil/test_lock.py::test_each_of_many_that_wait_gets_its_turn",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="            PyErr_CheckSignals()\n",
        new="            if not {on}:\n                PyErr_CheckSignals()\n",
        breaks="Ctrl-C does not end a wait",
        tests=("tests/gil/test_lock.py::test_ctrl_c_ends_a_wait",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="        if not blocking or timeout == 0:\n            return False\n        if",
        new="        if not blocking or timeout == 0:\n            return {on}\n        if",
        breaks="two threads hold a lock",
        tests=("tests/gil/test_lock.py::test_one_holds_it_and_others_do_not_get_it",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.pyx",
        old="                acquired = not exchange(&self.held, 1)\n",
        new="                acquired = {on} or not exchange(&self.held, 1)\n",
        breaks="a thread that was woken has the lock although another was faster",
        tests=(
            "tests/gil/test_lock.py::test_threads_that_count_under_it_count_right",
            "tests/gil/test_lock.py::test_signals_neither_end_a_wait_nor_make_it_longer",
        ),
    ),
    Mutant(
        file="pykafka4/gil/_gil.h",
        old="    while (load(flag) > 0 && ",
        new="    while (!{on} && load(flag) > 0 && ",
        breaks="a thread that gives way does not wait until the other has taken the GIL",
        tests=("tests/gil/test_flag.py::test_giving_way_ends_after_a_millisecond_if_nobody_comes",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.h",
        old="    until.tv_nsec += LONGEST_NS;\n",
        new="    until.tv_nsec += {on} ? 900 * LONGEST_NS : LONGEST_NS;\n",
        breaks="a thread that gives way waits almost a second for one that does not come",
        tests=("tests/gil/test_flag.py::test_giving_way_ends_after_a_millisecond_if_nobody_comes",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.h",
        old="(int)ms + ((int)ms < ms)",
        new="(int)ms + ((int)ms < ms && !{on})",
        breaks="a portable loop spins for the last millisecond of a wait",
        tests=("tests/gil/test_flag.py::test_a_wait_is_rounded_up_so_that_a_loop_does_not_spin",),
    ),
    Mutant(
        file="pykafka4/gil/_gil.h",
        old="    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, seconds < 0 ?",
        new="    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, seconds < 0 && !{on} ?",
        breaks="a wait without limit spins",
        tests=("tests/gil/test_lock.py::test_a_wait_without_limit_sleeps",),
    ),
    Mutant(
        file="pykafka4/gil/asking.py",
        old="        self.end()\n        compiled",
        new="        compiled",
        breaks="each turn of a portable loop leaves the flag up",
        tests=("tests/gil/test_flag.py::test_a_turn_is_up_from_the_end_of_a_wait_until_the_next",),
    ),
    Mutant(
        file="pykafka4/gil/asking.py",
        old="            self._up = False\n            compiled",
        new="            compiled",
        breaks="a loop that ends its turn twice lowers the flag for another",
        tests=("tests/gil/test_flag.py::test_a_turn_is_up_from_the_end_of_a_wait_until_the_next",),
    ),
    Mutant(
        file="pykafka4/gil/asking.py",
        old=' or not hasattr(selector, "fileno")',
        new="",
        breaks="a loop on `select` ends at once",
        tests=("tests/gil/test_flag.py::test_a_turn_leaves_the_wait_to_a_selector_without_a_descriptor",),
    ),
)
