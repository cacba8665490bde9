"""A main process in the middle of a case: ``python never_ends.py ARM CASE``, both as JSON."""

import sys

import msgspec

from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Start

arm, case = msgspec.json.decode(sys.argv[1], type=Arm), msgspec.json.decode(sys.argv[2], type=Case)
worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=arm)
assert worker.ready
print("begun", flush=True)
worker.run(case, 600)
