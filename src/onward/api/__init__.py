"""What `import onward` offers besides declaring: running a job, asking about it, deciding about its records.

`instances`, `causes`, `show`, `log`, `verify_log`, `bind`, `pause`, `resume`, `drain`, `concurrency` and `vacuum` serve
the command line alone and are not offered.
"""

from onward.api.asking import causes, failures, instances, log, results, show, status, verify_log
from onward.api.deciding import reconcile, release, rerun, rerun_sample, retry
from onward.api.moving import copy, export, export_into
from onward.api.operating import concurrency, drain, pause, resume, vacuum
from onward.api.running import estimate, rehearse, run, run_async
from onward.api.subject import bind

__all__ = [
    "bind",
    "causes",
    "concurrency",
    "copy",
    "drain",
    "estimate",
    "export",
    "export_into",
    "failures",
    "instances",
    "log",
    "pause",
    "reconcile",
    "rehearse",
    "release",
    "rerun",
    "rerun_sample",
    "results",
    "resume",
    "retry",
    "run",
    "run_async",
    "show",
    "status",
    "vacuum",
    "verify_log",
]
