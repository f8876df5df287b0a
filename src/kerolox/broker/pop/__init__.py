"""POP consumption: messages are invisible for a time and come again if they are not acknowledged within it."""
