"""Open-loop load: when rows arrive, and their content.

The Spark source and the simulator share this package, so both see the same rows.

In: a profile of rates, or a recorded trace.
Out: for every row: when it arrives and what it contains.
Never touches: controllers and clusters: a load does not know who processes it.
"""

from tidegate.load.content import Content, Sentences, TextLines, content_from_spec
from tidegate.load.nexmark import Nexmark
from tidegate.load.profile import (
    Burst,
    Constant,
    LoadProfile,
    Poisson,
    Sinusoid,
    Spikes,
    Steps,
    Sum,
    Trace,
    profile_from_spec,
)
from tidegate.load.randomtext import RandomText
from tidegate.load.rides import RecordedRides, Rides
from tidegate.load.timeline import Timeline

__all__ = [
    "Burst",
    "Constant",
    "Content",
    "LoadProfile",
    "Nexmark",
    "Poisson",
    "RandomText",
    "RecordedRides",
    "Rides",
    "Sentences",
    "Sinusoid",
    "Spikes",
    "Steps",
    "Sum",
    "TextLines",
    "Timeline",
    "Trace",
    "content_from_spec",
    "profile_from_spec",
]
