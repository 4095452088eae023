"""The systems that are measured: each starts and stops all that it needs, on the loopback alone."""

from .apalis import Apalis
from .dbos import Dbos
from .durare import Durare
from .duroxide import Duroxide
from .floor import Floor
from .restate import Restate
from .triad import Triad

ALL = {system.name: system for system in (Triad, Restate, Dbos, Apalis, Durare, Duroxide, Floor)}
