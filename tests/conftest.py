"""What holds for all tests."""

from hypothesis import settings

# How long an example takes says nothing on a busy machine; tests have a time-out as a whole.
settings.register_profile("patient", parent=settings(), deadline=None)
settings.load_profile("patient")
