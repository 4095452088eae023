"""What every system has."""

import shutil
import signal

from .. import machine


class System:
    # The word by which the command line knows it, and its name in tables.
    name = title = ""
    # How many of the orders of a run it is given: a slow one need not take minutes.
    share = 1.0
    # What it was set to, and what of the comparison is unfair, to whom.
    settings = unfair = ""

    def __init__(self, place, service):
        """`place`: a directory of its own; `service`: the URL of the service."""
        self.place, self.service = place, service
        self.processes = []

    @classmethod
    def build(cls):
        """Makes what it needs, once."""

    def start(self, is_fresh):
        """Starts it, on new data or on what it has, and waits until it takes orders."""
        if is_fresh:
            shutil.rmtree(self.place, ignore_errors=True)
            self.place.mkdir(parents=True)
        self.launch(is_fresh)

    def launch(self, is_fresh):
        raise NotImplementedError

    def waited(self):
        """Where an order is posted to be answered at its end."""
        raise NotImplementedError

    def accepted(self):
        """Where an order is posted to be answered once it is durable."""
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
            # All at once: none of them sees another one end.
            for one in machine.tree([process.pid for process in processes]):
                machine.tell(one, by)
        for process in processes:
            process.stop(by)
