"""A process, measured: wall-clock time, CPU seconds and peak memory of it and of all it waited for."""

import atexit
import os
import signal
import subprocess
import time
from dataclasses import dataclass


@dataclass
class Usage:
    seconds: float
    cpu_seconds: float
    peak_mb: float


class Process:
    def __init__(self, command, log, output=os.devnull):
        self.command, self.log = command, log
        with open(log, "w") as errors, open(output, "w") as lines:
            self.began = time.monotonic()
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=lines, stderr=errors)
        atexit.register(self._kill)

    def _kill(self):
        if self.child.returncode is None:
            self.child.kill()
            self.child.wait()

    def elapsed(self):
        return time.monotonic() - self.began

    def cpu_seconds(self):
        """CPU seconds so far, of it and of children that it waited for, in hundredths."""
        with open(f"/proc/{self.child.pid}/stat") as line:
            ticks = line.read().rpartition(")")[2].split()[11:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def has_ended(self):
        # Leaves the child to be waited for, since its usage is told only once.
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.child.pid, flags) is not None

    def terminate(self):
        self.child.send_signal(signal.SIGTERM)

    def wait(self):
        """Waits for its end, which must be exit code 0."""
        _, status, usage = os.wait4(self.child.pid, 0)
        seconds = self.elapsed()
        self.child.returncode = os.waitstatus_to_exitcode(status)
        if self.child.returncode:
            self.fail(f"ended with {self.child.returncode}")
        return Usage(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)  # ru_maxrss is in KiB

    def fail(self, what):
        self._kill()
        with open(self.log) as errors:
            tail = "".join(errors.readlines()[-20:])
        raise SystemExit(f"bench: {self.command[0]} {what}:\n{tail}")


def measure(command, log, output=os.devnull):
    return Process(command, log, output).wait()
