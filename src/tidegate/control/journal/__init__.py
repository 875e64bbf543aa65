"""The journal: every step with its reasons, exact and compact, and the controller's knowledge, in one file."""

from tidegate.control.journal.entry import ApplicationRollUp, Entry, Note, RollUp
from tidegate.control.journal.inmemory import MemoryJournal
from tidegate.control.journal.reader import read_entries, read_journal, read_knowledge, read_notes
from tidegate.control.journal.writer import SqliteJournal

__all__ = [
    "ApplicationRollUp",
    "Entry",
    "MemoryJournal",
    "Note",
    "RollUp",
    "SqliteJournal",
    "read_entries",
    "read_journal",
    "read_knowledge",
    "read_notes",
]
