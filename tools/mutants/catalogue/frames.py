"""Bugs of what errors keep of frames."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/frames.py",
        old="                frame.clear()\n",
        new="                pass\n",
        breaks="an error keeps the locals of the frames that it left",
        tests=("tests/secrets/test_secrets.py::test_certificates_and_keys_that_cannot_be_used",),
    ),
    Mutant(
        file="pykafka4/frames.py",
        old="            del args, kwargs  # of this frame, which has not ended\n",
        new="",
        breaks="an error keeps the arguments of the call that failed",
        tests=("tests/secrets/test_secrets.py::test_calls_that_are_wrong",),
    ),
    Mutant(
        file="pykafka4/frames.py",
        old="            waiting += [other for other in (found.__cause__, found.__context__) if other is not None]\n",
        new="",
        breaks="the context of an error keeps the locals of its frames",
        tests=("tests/test_frames.py::test_the_frames_of_causes_and_contexts_are_empty_too",),
    ),
    Mutant(
        file="pykafka4/frames.py",
        old="        is_ours = is_ours or str(",
        new="        is_ours = True or str(",
        breaks="an error takes the locals of the application's frames, too",
        tests=("tests/test_frames.py::test_the_frames_of_the_application_keep_their_variables",),
    ),
)
