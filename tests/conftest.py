"""What all tests share."""

from hypothesis import settings

# A busy machine must not fail a property: examples are judged by what they say, not by how long they took.
settings.register_profile("tidegate", deadline=None)
settings.load_profile("tidegate")
