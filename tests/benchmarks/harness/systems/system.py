"""The base class of the measured systems."""

import shutil
import signal

from .. import machine


class System:
    # Its name on the command line, and in tables.
    name = title = ""
    # The share of a run's orders that it gets, so that a slow system does not take minutes.
    share = 1.0
    # Its settings, and in which respect the comparison is unfair, and to which system.
    settings = unfair = ""

    def __init__(self, place, service):
        """`place`: the system's directory; `service`: the URL of the service."""
        self.place, self.service = place, service
        self.processes = []

    @classmethod
    def build(cls):
        """Builds or installs what the system needs."""

    def start(self, is_fresh):
        """Starts the system, on new or on existing data, and waits until it accepts orders."""
        if is_fresh:
            shutil.rmtree(self.place, ignore_errors=True)
            self.place.mkdir(parents=True)
        self.launch(is_fresh)

    def launch(self, is_fresh):
        raise NotImplementedError

    def waited(self):
        """The URLs whose answer comes when the order has ended."""
        raise NotImplementedError

    def accepted(self):
        """The URLs whose answer comes when the order is durable."""
        raise NotImplementedError

    def run(self, name, command, **further):
        process = machine.Process(self.place / f"{name}.log", command, **further)
        self.processes.append(process)
        return process

    def ids(self):
        return [process.pid for process in self.processes]

    def stop(self):
        self.end(signal.SIGTERM)

    def kill(self):
        self.end(signal.SIGKILL)

    def end(self, by):
        processes, self.processes = self.processes, []
        if by == signal.SIGKILL:
            # All at once, so that no process reacts to the end of another.
            for one in machine.tree([process.pid for process in processes]):
                machine.tell(one, by)
        for process in processes:
            process.stop(by)
