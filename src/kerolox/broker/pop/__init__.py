"""Popping: messages are handed out for a time, and come again if nobody says in that time that they were consumed."""
