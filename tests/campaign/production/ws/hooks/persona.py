#!/usr/bin/env python3
"""Persona: an assistant with a memory.

It keeps traits (who it is), notes, a journal, tasks, people, reminders, a mood and small tables of data, all of
them as plain files of the workspace, and offers a tool for each thing that one does with them. Everything that it
remembers stands in three folders:

    traits/   who it is, a Markdown file each; SOUL.md and HABITS.md are made when they are missing
    notes/    what it was told to keep; notes/journal/ has a file a day
    state/    tables as JSON: tasks, people, reminders, moods, counters, and what `data_update` is given

Each hook is a function with the decorator `hook`, each tool one with the decorator `tool`. A tool returns a text, or
a `Reply` where it changed files that others should hear of. What goes wrong in a tool is a `Trouble`, whose text the
model reads; anything else is a mistake in this file and ends the call with a traceback.
"""

import calendar
import datetime
import json
import os
import re
import sys
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRAITS = ROOT / "traits"
NOTES = ROOT / "notes"
JOURNAL = NOTES / "journal"
STATE = ROOT / "state"

NAME = "persona"
GREETING = "Hello."
LONGEST_NAME = 80
LONGEST_TEXT = 64 * 1024
SHOWN = 40
KEPT_MOODS = 200
KEPT_EVENTS = 300

MOODS = ("calm", "curious", "cheerful", "tired", "worried", "proud", "bored", "urgent")
PRIORITIES = ("low", "normal", "high")
CORE_TRAITS = ("SOUL.md", "HABITS.md")

DEFAULT_TRAITS = {
    "SOUL.md": "# Soul\n\nI am a careful assistant. I keep what I am told, and I say what I do not know.\n",
    "HABITS.md": "# Habits\n\n- I read my notes before I answer from memory.\n- I write down what was promised.\n",
}

HOOKS = {}
TOOLS = {}


# ---------------------------------------------------------------------------------------------------------
# The machinery
# ---------------------------------------------------------------------------------------------------------


class Trouble(Exception):
    """Something that the model can do something about; the text says what."""


class Reply:
    """What a tool answers with: a text, and what it changed."""

    def __init__(self, text, modified=(), notify=(), actions=()):
        self.text = text
        self.modified = [relative(path) for path in modified]
        self.notify = list(notify)
        self.actions = list(actions)

    def answer(self):
        """Return it as the protocol has it."""
        found = {"result": self.text}
        if self.modified:
            found["modified"] = self.modified
        if self.notify:
            found["notify"] = self.notify
        if self.actions:
            found["actions"] = self.actions
        return found


def hook(function):
    """Let a function answer the hook of its name."""
    HOOKS[function.__name__] = function
    return function


def tool(description, permission=None, **parameters):
    """Let a function be a tool of its name."""

    def register(function):
        definition = {"name": function.__name__, "description": description, "parameters": parameters}
        if permission is not None:
            definition["permission"] = {"arg": permission}
        TOOLS[function.__name__] = (definition, function)
        return function

    return register


def text_of(description, optional=False):
    """A parameter that is a text."""
    return {"type": "string", "description": description, "optional": optional}


def number_of(description, optional=True):
    """A parameter that is a number."""
    return {"type": "number", "description": description, "optional": optional}


def flag_of(description):
    """A parameter that may be left out and is false then."""
    return {"type": "boolean", "description": description, "optional": True}


def choice_of(description, values, optional=False):
    """A parameter that is one of some words."""
    return {"type": "string", "description": description, "enum": list(values), "optional": optional}


def log(text):
    """Print a line for the log."""
    print(json.dumps({"log": str(text)}), flush=True)


def relative(path):
    """Return a path as the workspace's people write it."""
    return str(Path(path).relative_to(ROOT))


# ---------------------------------------------------------------------------------------------------------
# Time
# ---------------------------------------------------------------------------------------------------------


def now():
    """Return the time now, in UTC, without fractions."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def stamp():
    """Return the time now as text."""
    return now().strftime("%Y-%m-%dT%H:%M:%SZ")


def today():
    """Return the day as text."""
    return now().strftime("%Y-%m-%d")


def parse_day(text):
    """Read a day: a date, or a word that means one."""
    word = text.strip().lower()
    base = now().date()
    if word in ("today", "now"):
        return base
    if word == "tomorrow":
        return base + datetime.timedelta(days=1)
    if word == "yesterday":
        return base - datetime.timedelta(days=1)
    ahead = re.fullmatch(r"in (\d{1,4}) (day|days|week|weeks)", word)
    if ahead:
        count = int(ahead.group(1)) * (7 if ahead.group(2).startswith("week") else 1)
        return base + datetime.timedelta(days=count)
    names = [name.lower() for name in calendar.day_name]
    if word in names:
        distance = (names.index(word) - base.weekday()) % 7 or 7
        return base + datetime.timedelta(days=distance)
    try:
        return datetime.date.fromisoformat(word)
    except ValueError:
        raise Trouble(
            f"{text!r} is no day: write 2026-05-31, today, tomorrow, in 3 days, or the name of a weekday"
        ) from None


def age_in_days(moment):
    """Return how many days ago a stamp was written."""
    try:
        then = datetime.datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ")
    except (TypeError, ValueError):
        return 0
    return max(0, (now().replace(tzinfo=None) - then).days)


def counted(number, noun):
    """Return a number with what it counts."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# ---------------------------------------------------------------------------------------------------------
# Files
# ---------------------------------------------------------------------------------------------------------


def file_name(name, suffix=".md"):
    """Return a bare file name with its suffix."""
    text = unicodedata.normalize("NFC", str(name)).strip()
    if not text:
        raise Trouble("a name must not be empty")
    if len(text) > LONGEST_NAME:
        raise Trouble(f"a name has {LONGEST_NAME} characters at most")
    if text != os.path.basename(text) or text.startswith(".") or "\\" in text or "\0" in text:
        raise Trouble(f"{name!r} is not a bare file name")
    if any(unicodedata.category(char).startswith("C") for char in text):
        raise Trouble(f"{name!r} has characters that cannot be seen")
    return text if text.endswith(suffix) else text + suffix


def read(path):
    """Return a file's text; Trouble where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        near = nearest(path.name, [one.name for one in files_in(path.parent)])
        hint = f"; did you mean {near}?" if near else ""
        raise Trouble(f"there is no {relative(path)}{hint}") from None
    except UnicodeDecodeError:
        raise Trouble(f"{relative(path)} is not a text") from None


def write(path, text):
    """Write a file whole: beside it, then renamed."""
    if len(text.encode("utf-8")) > LONGEST_TEXT:
        raise Trouble(f"a text has {LONGEST_TEXT} bytes at most")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
    return path


def files_in(folder, suffix=".md"):
    """Return a folder's files, sorted; none where there is no folder."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    return sorted(path for path in found if path.name.endswith(suffix))


def nearest(word, words):
    """Return the word that is most like another one, if any is."""
    best, least = None, 4
    for one in words:
        distance = edits(word.lower(), one.lower(), least)
        if distance < least:
            best, least = one, distance
    return best


def edits(one, other, limit):
    """Return how many characters must change; `limit` where it is that many or more."""
    if abs(len(one) - len(other)) >= limit:
        return limit
    before = list(range(len(other) + 1))
    for row, left in enumerate(one, 1):
        current = [row]
        for column, right in enumerate(other, 1):
            change = before[column - 1] + (left != right)
            current.append(min(before[column] + 1, current[column - 1] + 1, change))
        if min(current) >= limit:
            return limit
        before = current
    return min(before[-1], limit)


def first_line(text):
    """Return the first line with something on it, without the marks of a heading."""
    for line in text.splitlines():
        clean = line.strip().lstrip("#").strip()
        if clean:
            return clean
    return "(empty)"


def excerpt(text, word, around=40):
    """Return the part of a text around a word, on one line."""
    flat = " ".join(text.split())
    at = flat.lower().find(word.lower())
    if at < 0:
        return flat[: 2 * around]
    start, end = max(0, at - around), min(len(flat), at + len(word) + around)
    return ("…" if start else "") + flat[start:end] + ("…" if end < len(flat) else "")


# ---------------------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------------------


class Table:
    """A list of records in a file of `state/`, each with a number of its own."""

    def __init__(self, name, noun):
        self.path = STATE / f"{name}.json"
        self.noun = noun
        self.rows = []
        self.next = 1
        self.load()

    def load(self):
        """Read it; a damaged file is put aside, so that nothing is lost."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        except (ValueError, UnicodeDecodeError):
            aside = self.path.with_suffix(f".broken-{now().strftime('%Y%m%d%H%M%S')}")
            self.path.replace(aside)
            log(f"{relative(self.path)} could not be read and stands as {relative(aside)} now")
            return
        self.rows = [row for row in found.get("rows", []) if isinstance(row, dict)]
        self.next = max([int(found.get("next", 1)), *(int(row.get("id", 0)) + 1 for row in self.rows)])

    def save(self):
        """Write it."""
        text = json.dumps(
            {"next": self.next, "rows": self.rows}, indent=1, sort_keys=True, ensure_ascii=False
        )
        return write(self.path, text + "\n")

    def add(self, **fields):
        """Add a record and return it."""
        row = {"id": self.next, "made": stamp(), **fields}
        self.next += 1
        self.rows.append(row)
        return row

    def find(self, number):
        """Return the record with a number."""
        for row in self.rows:
            if row.get("id") == int(number):
                return row
        known = ", ".join(str(row["id"]) for row in self.rows[-10:]) or "none"
        raise Trouble(f"there is no {self.noun} {int(number)}; the newest are: {known}")

    def remove(self, number):
        """Take a record out and return it."""
        row = self.find(number)
        self.rows.remove(row)
        return row

    def keep(self, count):
        """Forget all but the newest records."""
        del self.rows[:-count]


def tasks():
    """The tasks."""
    return Table("tasks", "task")


def people():
    """The people."""
    return Table("people", "person")


def reminders():
    """The reminders."""
    return Table("reminders", "reminder")


def moods():
    """The moods."""
    return Table("moods", "mood")


def events():
    """What happened lately."""
    return Table("events", "event")


def counters():
    """Return the counters."""
    path = STATE / "counters.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def count(name, step=1):
    """Raise a counter and return it."""
    known = counters()
    known[name] = int(known.get(name, 0)) + step
    write(STATE / "counters.json", json.dumps(known, indent=1, sort_keys=True) + "\n")
    return known[name]


# ---------------------------------------------------------------------------------------------------------
# Tools: traits
# ---------------------------------------------------------------------------------------------------------


def traits():
    """Return the traits by name; the ones that everybody has are there from the start."""
    found = dict(DEFAULT_TRAITS)
    for path in files_in(TRAITS):
        found[path.name] = path.read_text(encoding="utf-8", errors="replace")
    return found


@tool("List the traits: who you are, a file each, with its first line.")
def trait_list(args):
    lines = [f"{name}: {first_line(text)}" for name, text in sorted(traits().items())]
    return "\n".join(lines)


@tool("Read a trait.", trait=text_of("The trait's file name, such as SOUL.md."))
def trait_read(args):
    name = file_name(args["trait"])
    known = traits()
    if name not in known:
        near = nearest(name, known)
        raise Trouble(f"there is no trait {name}" + (f"; did you mean {near}?" if near else ""))
    return known[name]


@tool(
    "Write a trait anew. Say who you are, not what you were told.",
    permission="trait",
    trait=text_of("The trait's file name, such as SOUL.md."),
    content=text_of("Its whole text, as Markdown."),
)
def trait_write(args):
    name = file_name(args["trait"])
    text = args["content"].rstrip() + "\n"
    if not text.strip():
        raise Trouble("a trait must say something; use trait_delete to drop one")
    path = write(TRAITS / name, text)
    count("traits written")
    notify = {"type": "trait_changed", "files": [relative(path)]}
    return Reply(f"Wrote {relative(path)}: {first_line(text)}", [path], [notify])


@tool(
    "Give a trait another name.",
    permission=["old_trait", "new_trait"],
    old_trait=text_of("The trait's name now."),
    new_trait=text_of("The name that it is to have."),
)
def trait_move(args):
    old, new = file_name(args["old_trait"]), file_name(args["new_trait"])
    if old in CORE_TRAITS:
        raise Trouble(f"{old} is one that everybody has; it keeps its name")
    if new in traits():
        raise Trouble(f"there is a trait {new} already")
    read(TRAITS / old)
    (TRAITS / old).rename(TRAITS / new)
    notify = {"type": "trait_changed", "files": [f"traits/{old}", f"traits/{new}"]}
    return Reply(f"traits/{old} is traits/{new} now", [TRAITS / old, TRAITS / new], [notify])


@tool("Delete a trait.", permission="trait", trait=text_of("The trait's file name."))
def trait_delete(args):
    name = file_name(args["trait"])
    if name in CORE_TRAITS:
        raise Trouble(f"{name} is one that everybody has; write it anew rather than deleting it")
    text = read(TRAITS / name)
    (TRAITS / name).unlink()
    notify = {"type": "trait_changed", "files": [f"traits/{name}"]}
    return Reply(f"Deleted traits/{name} ({counted(len(text), 'character')})", [TRAITS / name], [notify])


# ---------------------------------------------------------------------------------------------------------
# Tools: notes
# ---------------------------------------------------------------------------------------------------------


@tool("List the notes, with the first line of each.", prefix=text_of("Only names that begin so.", True))
def note_list(args):
    prefix = args.get("prefix", "").lower()
    found = [path for path in files_in(NOTES) if path.name.lower().startswith(prefix)]
    if not found:
        return "There are no notes." if not prefix else f"No note begins with {prefix!r}."
    lines = [f"{path.name}: {first_line(read(path))}" for path in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"… and {counted(len(found) - SHOWN, 'more note')}")
    return "\n".join(lines)


@tool(
    "Read a note.",
    name=text_of("The note's file name."),
    offset=number_of("The line to begin with, counted from 1."),
    limit=number_of("How many lines."),
)
def note_read(args):
    text = read(NOTES / file_name(args["name"]))
    lines = text.splitlines()
    start = max(1, int(args.get("offset", 1)))
    limit = max(1, int(args.get("limit", len(lines) or 1)))
    shown = lines[start - 1 : start - 1 + limit]
    if start > 1 or len(shown) < len(lines):
        shown.append(f"(lines {start} to {start + len(shown) - 1} of {len(lines)})")
    return "\n".join(shown) or "(empty)"


@tool(
    "Write a note anew. A note with links of the form [[other]] shows up with that one.",
    permission="name",
    name=text_of("The note's file name."),
    content=text_of("Its whole text, as Markdown."),
)
def note_write(args):
    path = write(NOTES / file_name(args["name"]), args["content"].rstrip() + "\n")
    count("notes written")
    missing = [link for link in links_of(args["content"]) if not (NOTES / file_name(link)).exists()]
    hint = f" It links to what is not there yet: {', '.join(missing)}." if missing else ""
    return Reply(f"Wrote {relative(path)}.{hint}", [path])


@tool(
    "Add a paragraph to a note; a note that is not there yet is made.",
    permission="name",
    name=text_of("The note's file name."),
    content=text_of("What to add."),
)
def note_append(args):
    path = NOTES / file_name(args["name"])
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    text = (
        f"{before.rstrip()}\n\n{args['content'].strip()}\n"
        if before.strip()
        else args["content"].strip() + "\n"
    )
    write(path, text)
    return Reply(f"Added {counted(len(args['content']), 'character')} to {relative(path)}", [path])


@tool("Delete a note.", permission="name", name=text_of("The note's file name."))
def note_delete(args):
    path = NOTES / file_name(args["name"])
    text = read(path)
    path.unlink()
    return Reply(f"Deleted {relative(path)}: {first_line(text)}", [path])


@tool("Show which notes link to a note, and which it links to.", name=text_of("The note's file name."))
def note_links(args):
    name = file_name(args["name"])
    text = read(NOTES / name)
    to = [file_name(link) for link in links_of(text)]
    back = [path.name for path in files_in(NOTES) if name in [file_name(one) for one in links_of(read(path))]]
    lines = ["links to: " + (", ".join(to) or "nothing"), "linked from: " + (", ".join(back) or "nothing")]
    return "\n".join(lines)


@tool(
    "Search the notes for words; all of them must stand in a note.",
    words=text_of("The words."),
    limit=number_of("How many notes to show."),
)
def note_search(args):
    found = search(files_in(NOTES), args["words"])
    return shown_hits(found, args["words"], int(args.get("limit", 10)))


def links_of(text):
    """Return what a text links to, each once, in order."""
    found = []
    for link in re.findall(r"\[\[([^\[\]\n]{1,80})\]\]", text):
        if link.strip() and link.strip() not in found:
            found.append(link.strip())
    return found


def search(paths, words):
    """Return the files in which all words stand, the ones with most of them first."""
    wanted = [word for word in words.lower().split() if word]
    if not wanted:
        raise Trouble("name a word to search for")
    found = []
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        flat = f"{path.stem}\n{text}".lower()
        hits = [flat.count(word) for word in wanted]
        if all(hits):
            found.append((sum(hits), path, text))
    found.sort(key=lambda hit: (-hit[0], hit[1].name))
    return found


def shown_hits(found, words, limit):
    """Return hits as lines for the model."""
    if not found:
        return f"Nothing has {words!r} in it."
    first = words.split()[0]
    lines = [f"{relative(path)} ({hits}): {excerpt(text, first)}" for hits, path, text in found[:limit]]
    if len(found) > limit:
        lines.append(f"… and {counted(len(found) - limit, 'more file')}")
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------------------
# Tools: the journal
# ---------------------------------------------------------------------------------------------------------


@tool(
    "Write a line into today's journal.",
    text=text_of("What happened."),
    mood=choice_of("How it felt.", MOODS, optional=True),
)
def journal_write(args):
    text = " ".join(args["text"].split())
    if not text:
        raise Trouble("a line of the journal must say something")
    path = JOURNAL / f"{today()}.md"
    before = path.read_text(encoding="utf-8") if path.exists() else f"# {today()}\n\n"
    felt = f" ({args['mood']})" if args.get("mood") else ""
    write(path, f"{before}- {now().strftime('%H:%M')} {text}{felt}\n")
    count("journal lines")
    if args.get("mood"):
        remember_mood(args["mood"], text)
    return Reply(f"Wrote it into {relative(path)}", [path])


@tool("Read the journal of a day.", day=text_of("A date, today or yesterday; today if it is left out.", True))
def journal_read(args):
    day = parse_day(args.get("day", "today"))
    path = JOURNAL / f"{day.isoformat()}.md"
    if not path.exists():
        days = [one.stem for one in files_in(JOURNAL)][-5:]
        return f"There is no journal of {day.isoformat()}; the newest are of: {', '.join(days) or 'no day'}"
    return read(path)


@tool("Search the journal for words.", words=text_of("The words."))
def journal_search(args):
    found = search(files_in(JOURNAL), args["words"])
    return shown_hits(sorted(found, key=lambda hit: hit[1].name, reverse=True), args["words"], 10)


@tool(
    "Sum up the journal of the last days: how many lines, and which words come up.",
    days=number_of("How many."),
)
def journal_summary(args):
    days = max(1, min(366, int(args.get("days", 7))))
    since = now().date() - datetime.timedelta(days=days)
    paths = [path for path in files_in(JOURNAL) if path.stem > since.isoformat()]
    lines = [line for path in paths for line in read(path).splitlines() if line.startswith("- ")]
    if not lines:
        return f"Nothing was written in the last {counted(days, 'day')}."
    often = frequent(" ".join(lines), 8)
    words = ", ".join(f"{word} ({number})" for word, number in often)
    return f"{counted(len(lines), 'line')} on {counted(len(paths), 'day')}; often: {words or 'nothing'}"


STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
    a an and are as at be but by for from had has have he her his i in is it its me my no not of on or our she so
    that the their them they this to was we were what when which who will with you your
""",
    )
)


def frequent(text, limit):
    """Return the words that come up most, with how often."""
    numbers = {}
    for word in re.findall(r"[^\W\d_]{3,}", text.lower()):
        if word not in STOP_WORDS and word not in MOODS:
            numbers[word] = numbers.get(word, 0) + 1
    return sorted(numbers.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]


# ---------------------------------------------------------------------------------------------------------
# Tools: tasks
# ---------------------------------------------------------------------------------------------------------


@tool(
    "Add a task.",
    title=text_of("What is to be done, in one line."),
    due=text_of("Until when: a date, tomorrow, in 3 days, friday.", True),
    priority=choice_of("How much it matters.", PRIORITIES, optional=True),
    tags={"type": "array[string]", "description": "Words to find it by.", "optional": True},
)
def task_add(args):
    title = " ".join(args["title"].split())
    if not title:
        raise Trouble("a task must say what is to be done")
    table = tasks()
    twin = next(
        (row for row in table.rows if row["title"].lower() == title.lower() and not row.get("done")), None
    )
    if twin is not None:
        raise Trouble(f"task {twin['id']} is the same and is still open")
    due = parse_day(args["due"]).isoformat() if args.get("due") else None
    tags = sorted({tag.strip().lower() for tag in args.get("tags") or [] if tag.strip()})
    row = table.add(title=title, due=due, priority=args.get("priority", "normal"), tags=tags, done=None)
    return Reply(f"Added {task_line(row)}", [table.save()])


@tool(
    "List the tasks, the most urgent first.",
    tag=text_of("Only those with this tag.", True),
    all=flag_of("Also those that are done."),
)
def task_list(args):
    rows = [row for row in tasks().rows if args.get("all") or not row.get("done")]
    if args.get("tag"):
        rows = [row for row in rows if args["tag"].strip().lower() in row.get("tags", [])]
    if not rows:
        return "There is nothing to do."
    rows.sort(key=urgency)
    lines = [task_line(row) for row in rows[:SHOWN]]
    if len(rows) > SHOWN:
        lines.append(f"… and {counted(len(rows) - SHOWN, 'more task')}")
    return "\n".join(lines)


@tool(
    "Mark a task as done.",
    id=number_of("The task's number.", optional=False),
    how=text_of("How it ended.", True),
)
def task_done(args):
    table = tasks()
    row = table.find(args["id"])
    if row.get("done"):
        raise Trouble(f"task {row['id']} was done at {row['done']} already")
    row["done"] = stamp()
    if args.get("how"):
        row["how"] = " ".join(args["how"].split())
    count("tasks done")
    return Reply(f"Done: {row['title']}", [table.save()], [{"type": "task_done", "title": row["title"]}])


@tool(
    "Change a task.",
    id=number_of("The task's number.", optional=False),
    title=text_of("Its new title.", True),
    due=text_of("Until when; - for no day.", True),
    priority=choice_of("How much it matters.", PRIORITIES, optional=True),
)
def task_edit(args):
    table = tasks()
    row = table.find(args["id"])
    before = task_line(row)
    if args.get("title"):
        row["title"] = " ".join(args["title"].split())
    if args.get("due"):
        row["due"] = None if args["due"].strip() == "-" else parse_day(args["due"]).isoformat()
    if args.get("priority"):
        row["priority"] = args["priority"]
    after = task_line(row)
    if before == after:
        raise Trouble("that changes nothing: name a title, a day or a priority")
    return Reply(f"{before}\nis now\n{after}", [table.save()])


@tool("Drop a task that will not be done.", id=number_of("The task's number.", optional=False))
def task_drop(args):
    table = tasks()
    row = table.remove(args["id"])
    return Reply(f"Dropped: {row['title']}", [table.save()])


def urgency(row):
    """Return what tasks are sorted by: open ones first, then the day, then how much they matter."""
    rank = len(PRIORITIES) - PRIORITIES.index(row.get("priority", "normal"))
    return (bool(row.get("done")), row.get("due") or "9999", rank, row["id"])


def task_line(row):
    """Return a task as a line."""
    parts = [f"#{row['id']}", "[x]" if row.get("done") else "[ ]", row["title"]]
    if row.get("due"):
        late = " (late)" if row["due"] < today() and not row.get("done") else ""
        parts.append(f"until {row['due']}{late}")
    if row.get("priority", "normal") != "normal":
        parts.append(f"priority {row['priority']}")
    parts += [f"+{tag}" for tag in row.get("tags", [])]
    return " ".join(parts)


# ---------------------------------------------------------------------------------------------------------
# Tools: people
# ---------------------------------------------------------------------------------------------------------


@tool(
    "Remember a person.",
    name=text_of("Their name."),
    relation=text_of("Who they are to the user.", True),
    birthday=text_of("As 05-31 or 1990-05-31.", True),
)
def person_add(args):
    name = " ".join(args["name"].split())
    if not name:
        raise Trouble("a person must have a name")
    table = people()
    if any(row["name"].lower() == name.lower() for row in table.rows):
        raise Trouble(f"{name} is known already; use person_note to add what you learnt")
    row = table.add(
        name=name, relation=args.get("relation", ""), birthday=birthday(args.get("birthday")), notes=[]
    )
    return Reply(f"Remembered {person_line(row)}", [table.save()])


@tool(
    "Write down what you learnt about a person.",
    name=text_of("Their name."),
    text=text_of("What you learnt."),
)
def person_note(args):
    table = people()
    row = known_person(table, args["name"])
    row["notes"].append({"at": stamp(), "text": " ".join(args["text"].split())})
    return Reply(f"{row['name']}: {counted(len(row['notes']), 'note')}", [table.save()])


@tool("Tell all that is known about a person.", name=text_of("Their name, or a part of it."))
def person_find(args):
    row = known_person(people(), args["name"])
    lines = [person_line(row)]
    lines += [f"- {note['at'][:10]} {note['text']}" for note in row["notes"]]
    mentions = search(files_in(NOTES), row["name"].split()[0])
    lines += [f"- see {relative(path)}" for _, path, _ in mentions[:5]]
    return "\n".join(lines)


@tool("List the people that are known.")
def person_list(args):
    rows = sorted(people().rows, key=lambda row: row["name"].lower())
    return "\n".join(person_line(row) for row in rows) or "Nobody is known yet."


def known_person(table, name):
    """Return the person whom a name means; Trouble where it is nobody, or several."""
    wanted = " ".join(name.split()).lower()
    exact = [row for row in table.rows if row["name"].lower() == wanted]
    found = exact or [row for row in table.rows if wanted and wanted in row["name"].lower()]
    if len(found) == 1:
        return found[0]
    if found:
        raise Trouble(f"{name!r} may be {' or '.join(row['name'] for row in found)}")
    near = nearest(name, [row["name"] for row in table.rows])
    raise Trouble(f"nobody is called {name!r}" + (f"; did you mean {near}?" if near else ""))


def birthday(text):
    """Read a birthday, with or without its year."""
    if not text:
        return None
    found = re.fullmatch(r"(?:(\d{4})-)?(\d{2})-(\d{2})", text.strip())
    if found is None:
        raise Trouble(f"{text!r} is no birthday: write 05-31 or 1990-05-31")
    year, month, day = found.groups()
    try:
        datetime.date(int(year or 2000), int(month), int(day))
    except ValueError:
        raise Trouble(f"there is no such day as {text}") from None
    return text.strip()


def person_line(row):
    """Return a person as a line."""
    parts = [row["name"]]
    if row.get("relation"):
        parts.append(f"({row['relation']})")
    if row.get("birthday"):
        parts.append(f"born {row['birthday']}")
    if row.get("notes"):
        parts.append(f"- {row['notes'][-1]['text']}")
    return " ".join(parts)


def birthdays(days):
    """Return who has a birthday in the next days."""
    base = now().date()
    coming = {(base + datetime.timedelta(days=ahead)).strftime("%m-%d"): ahead for ahead in range(days + 1)}
    found = [
        (coming[row["birthday"][-5:]], row)
        for row in people().rows
        if (row.get("birthday") or "")[-5:] in coming
    ]
    return [(ahead, row["name"]) for ahead, row in sorted(found, key=lambda pair: pair[0])]


# ---------------------------------------------------------------------------------------------------------
# Tools: reminders
# ---------------------------------------------------------------------------------------------------------


@tool(
    "Set a reminder, which comes up at the next heartbeat after its day has begun.",
    text=text_of("Of what."),
    day=text_of("When: a date, tomorrow, in 3 days, friday."),
    every=choice_of("Again and again.", ("day", "week", "month", "year"), optional=True),
)
def reminder_add(args):
    text = " ".join(args["text"].split())
    if not text:
        raise Trouble("a reminder must say of what")
    table = reminders()
    row = table.add(text=text, day=parse_day(args["day"]).isoformat(), every=args.get("every"), done=None)
    return Reply(f"Reminder {row['id']} for {row['day']}: {text}", [table.save()])


@tool("List the reminders that are still to come.")
def reminder_list(args):
    rows = sorted(
        (row for row in reminders().rows if not row.get("done")), key=lambda row: (row["day"], row["id"])
    )
    lines = [f"#{row['id']} {row['day']} {row['text']}" + repeated(row) for row in rows[:SHOWN]]
    return "\n".join(lines) or "There are no reminders."


@tool(
    "Mark a reminder as seen; one that comes again gets its next day.",
    id=number_of("Its number.", optional=False),
)
def reminder_done(args):
    table = reminders()
    row = table.find(args["id"])
    if row.get("every"):
        row["day"] = following(datetime.date.fromisoformat(row["day"]), row["every"]).isoformat()
        said = f"Reminder {row['id']} comes again on {row['day']}"
    else:
        row["done"] = stamp()
        said = f"Reminder {row['id']} is done"
    return Reply(said, [table.save()])


def repeated(row):
    """Return how often a reminder comes, as a text after it."""
    return f" (every {row['every']})" if row.get("every") else ""


def following(day, every):
    """Return the next day of a reminder that comes again, later than today."""
    base = now().date()
    while True:
        if every == "day":
            day += datetime.timedelta(days=1)
        elif every == "week":
            day += datetime.timedelta(days=7)
        elif every == "month":
            day = later_month(day, 1)
        else:
            day = later_month(day, 12)
        if day > base:
            return day


def later_month(day, months):
    """Return the same day some months later; the last one of a shorter month."""
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return datetime.date(year, month + 1, min(day.day, last))


def due_reminders():
    """Return the reminders whose day has come."""
    return [row for row in reminders().rows if not row.get("done") and row["day"] <= today()]


# ---------------------------------------------------------------------------------------------------------
# Tools: mood
# ---------------------------------------------------------------------------------------------------------


@tool("Say how you feel, and why.", mood=choice_of("The mood.", MOODS), why=text_of("Because of what.", True))
def mood_set(args):
    before = current_mood()
    path = remember_mood(args["mood"], args.get("why", ""))
    return Reply(f"You were {before} and are {args['mood']} now.", [path])


@tool("Show the moods of the last days.", limit=number_of("How many."))
def mood_history(args):
    limit = max(1, min(KEPT_MOODS, int(args.get("limit", 10))))
    rows = moods().rows[-limit:]
    lines = [
        f"{row['made'][:16]} {row['mood']}" + (f": {row['why']}" if row.get("why") else "") for row in rows
    ]
    return "\n".join(lines) or "No mood was written down."


def remember_mood(mood, why):
    """Write a mood down and return the file."""
    table = moods()
    table.add(mood=mood, why=" ".join(why.split()))
    table.keep(KEPT_MOODS)
    return table.save()


def current_mood():
    """Return the mood that was written down last; one fades after two days."""
    rows = moods().rows
    return rows[-1]["mood"] if rows and age_in_days(rows[-1].get("made")) < 2 else "calm"


# ---------------------------------------------------------------------------------------------------------
# Tools: habits
# ---------------------------------------------------------------------------------------------------------


def habits():
    """The habits that the user wants to keep."""
    return Table("habits", "habit")


@tool(
    "Start to keep track of a habit.",
    name=text_of("What is to become a habit."),
    every=choice_of("How often.", ("day", "week"), optional=True),
)
def habit_add(args):
    name = " ".join(args["name"].split())
    if not name:
        raise Trouble("a habit must have a name")
    table = habits()
    if any(row["name"].lower() == name.lower() for row in table.rows):
        raise Trouble(f"{name} is kept track of already")
    row = table.add(name=name, every=args.get("every", "day"), days=[])
    return Reply(f"Habit {row['id']}: {name}, every {row['every']}", [table.save()])


@tool(
    "Write down that a habit was kept.",
    id=number_of("The habit's number.", optional=False),
    day=text_of("Which day; today if it is left out.", True),
)
def habit_check(args):
    table = habits()
    row = table.find(args["id"])
    day = parse_day(args.get("day", "today"))
    if day > now().date():
        raise Trouble(f"{day.isoformat()} has not come yet")
    if day.isoformat() in row["days"]:
        raise Trouble(f"{row['name']} was kept on {day.isoformat()} already")
    row["days"] = sorted([*row["days"], day.isoformat()])[-400:]
    kept = streak(row)
    return Reply(f"{row['name']}: {counted(kept, row['every'])} in a row", [table.save()])


@tool("List the habits, each with how long it was kept without a gap.")
def habit_list(args):
    lines = [
        f"#{row['id']} {row['name']}: {counted(streak(row), row['every'])} in a row" for row in habits().rows
    ]
    return "\n".join(lines) or "No habit is kept track of."


def streak(row):
    """Return for how many days, or weeks, up to now a habit was kept without a gap."""
    kept = {datetime.date.fromisoformat(day) for day in row["days"]}
    if row["every"] == "week":
        kept = {week_of(day) for day in kept}
        step, at = datetime.timedelta(days=7), week_of(now().date())
    else:
        step, at = datetime.timedelta(days=1), now().date()
    if at not in kept:
        # Today is not over yet.
        at -= step
    found = 0
    while at in kept:
        found += 1
        at -= step
    return found


def week_of(day):
    """Return the Monday of a day's week."""
    return day - datetime.timedelta(days=day.weekday())


# ---------------------------------------------------------------------------------------------------------
# Tools: plans
# ---------------------------------------------------------------------------------------------------------


@tool(
    "Make a plan of a day: its reminders and tasks, birthdays, and what is still open from before.",
    day=text_of("Which day; today if it is left out.", True),
)
def day_plan(args):
    day = parse_day(args.get("day", "today"))
    iso = day.isoformat()
    coming = [row for row in reminders().rows if not row.get("done") and row["day"] == iso]
    open_tasks = sorted((row for row in tasks().rows if not row.get("done")), key=urgency)
    sections = [
        ("Reminders", [f"{row['text']}{repeated(row)}" for row in coming]),
        ("Due", [task_line(row) for row in open_tasks if row.get("due") == iso]),
        ("Late", [task_line(row) for row in open_tasks if row.get("due") and row["due"] < iso]),
        ("Whenever", [task_line(row) for row in open_tasks if not row.get("due")][:5]),
        ("Birthdays", [row["name"] for row in people().rows if (row.get("birthday") or "")[-5:] == iso[-5:]]),
        (
            "Habits",
            [row["name"] for row in habits().rows if iso not in row["days"] and row["every"] == "day"],
        ),
    ]
    lines = [f"# {calendar.day_name[day.weekday()]}, {iso}"]
    for title, entries in sections:
        if entries:
            lines += ["", f"## {title}", "", *(f"- {entry}" for entry in entries)]
    if len(lines) == 1:
        lines += ["", "Nothing is planned."]
    return "\n".join(lines)


@tool(
    "Tell what happened in the last days, from journal, tasks and moods, the newest first.",
    days=number_of("How many."),
)
def timeline(args):
    days = max(1, min(60, int(args.get("days", 7))))
    since = (now().date() - datetime.timedelta(days=days - 1)).isoformat()
    found = []
    for path in files_in(JOURNAL):
        if path.stem >= since:
            found += [(path.stem, line[2:]) for line in read(path).splitlines() if line.startswith("- ")]
    for row in tasks().rows:
        if row.get("done") and row["done"][:10] >= since:
            found.append((row["done"][:10], f"{row['done'][11:16]} done: {row['title']}"))
    for row in moods().rows:
        if row["made"][:10] >= since:
            found.append((row["made"][:10], f"{row['made'][11:16]} {row['mood']}"))
    lines = [f"{day} {text}" for day, text in sorted(found, reverse=True)[:SHOWN]]
    return "\n".join(lines) or f"Nothing happened in the last {counted(days, 'day')}."


# ---------------------------------------------------------------------------------------------------------
# Tools: data of any form
# ---------------------------------------------------------------------------------------------------------


@tool(
    "Merge an object into a table of data of your own.",
    permission="file",
    file=text_of("The table's name, such as plants.json."),
    values={"type": "object[string, any]", "description": "What to set; null takes a key out."},
)
def data_update(args):
    path = data_path(args["file"])
    known = data_of(path)
    for key, value in args["values"].items():
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value
    write(path, json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    return Reply(f"{relative(path)} has {counted(len(known), 'key')}", [path])


@tool(
    "Read a table of data of your own.",
    file=text_of("The table's name."),
    keys={"type": "array[string]", "description": "Only these keys.", "optional": True},
)
def data_read(args):
    path = data_path(args["file"])
    if not path.exists():
        names = ", ".join(one.name for one in files_in(STATE / "data", ".json"))
        raise Trouble(f"there is no table {args['file']}; there are: {names or 'none'}")
    known = data_of(path)
    wanted = args.get("keys") or sorted(known)
    return json.dumps({key: known[key] for key in wanted if key in known}, ensure_ascii=False, sort_keys=True)


def data_path(name):
    """Return the file of a table of data."""
    return STATE / "data" / file_name(name, ".json")


def data_of(path):
    """Return a table of data; an empty one where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise Trouble(
            f"{relative(path)} is damaged: mend it with a text editor, or name another table"
        ) from None
    return found if isinstance(found, dict) else {}


# ---------------------------------------------------------------------------------------------------------
# Tools: all of it
# ---------------------------------------------------------------------------------------------------------


@tool("Search everything that you know: traits, notes, journal, tasks, people.", words=text_of("The words."))
def recall(args):
    words = args["words"]
    found = search([*files_in(TRAITS), *files_in(NOTES), *files_in(JOURNAL)], words)
    lines = [shown_hits(found, words, 8)] if found else []
    wanted = words.lower().split()
    for row in tasks().rows:
        if all(word in task_line(row).lower() for word in wanted):
            lines.append(f"task {task_line(row)}")
    for row in people().rows:
        text = " ".join([person_line(row), *(note["text"] for note in row["notes"])]).lower()
        if all(word in text for word in wanted):
            lines.append(f"person {person_line(row)}")
    return "\n".join(lines) or f"Nothing has {words!r} in it."


@tool("Say how you are: mood, what is to be done, what comes up, and how much you remember.")
def status(args):
    open_tasks = [row for row in tasks().rows if not row.get("done")]
    late = [row for row in open_tasks if row.get("due") and row["due"] < today()]
    known = counters()
    lines = [
        f"{GREETING} I am {current_mood()}.",
        f"{counted(len(open_tasks), 'open task')}, {len(late)} late; {counted(len(due_reminders()), 'reminder')} due",
        f"{counted(len(files_in(NOTES)), 'note')}, {counted(len(files_in(JOURNAL)), 'day')} of journal, "
        f"{counted(len(people().rows), 'person') if len(people().rows) == 1 else str(len(people().rows)) + ' people'}",
        f"heartbeats: {known.get('heartbeats', 0)}, answers: {known.get('answers', 0)}, calls: {known.get('calls', 0)}",
    ]
    lines += [f"{name} has a birthday in {counted(ahead, 'day')}" for ahead, name in birthdays(7)]
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------------------
# The hooks
# ---------------------------------------------------------------------------------------------------------


@hook
def discover(ctx):
    """Say who this is, which test guards it, and which tools it has."""
    return {
        "name": NAME,
        "test": "persona_test.py",
        "tools": [definition for definition, _ in TOOLS.values()],
    }


@hook
def mutate_request(ctx):
    """Make the system prompt of a session: the prompts, the traits, and what is going on."""
    prompts = ctx.get("prompts") or {}
    system = [text for text in (prompts.get("preamble"), prompts.get("chat")) if text]
    system.append("# Who you are\n\n" + "\n\n".join(text.strip() for _, text in sorted(traits().items())))
    going_on = going_on_now()
    if going_on:
        system.append("# What is going on\n\n" + going_on)
    return {"system": system}


@hook
def observe_message(ctx):
    """Count answers, and write down what the model promised."""
    count("answers")
    if ctx.get("calls"):
        count("calls", len(ctx["calls"]))
    promised = promises(ctx.get("answer") or "")
    if not promised:
        return {}
    table = tasks()
    known = {row["title"].lower() for row in table.rows}
    added = [table.add(title=text, due=None, priority="normal", tags=["promised"], done=None) for text in promised
             if text.lower() not in known]  # fmt: skip
    if not added:
        return {}
    path = table.save()
    return {
        "modified": [relative(path)],
        "notify": [{"type": "promised", "titles": [row["title"] for row in added]}],
    }


@hook
def idle(ctx):
    """Go on where the answer says that it is not the last one."""
    answer = (ctx.get("answer") or "").rstrip()
    if answer.endswith("[more]"):
        return {"continue": "Go on."}
    return {}


@hook
def heartbeat(ctx):
    """Say what there is to do at a heartbeat."""
    beat = count("heartbeats")
    forget_old_events()
    remember_event("heartbeat", f"beat {beat}")
    lines = [f"Heartbeat {beat}. It is {now().strftime('%A, %Y-%m-%d %H:%M')} UTC."]
    going_on = going_on_now()
    lines.append(going_on or "Nothing is due.")
    open_sessions = ctx.get("sessions") or []
    if open_sessions:
        lines.append(f"{counted(len(open_sessions), 'session')} open.")
    prompts = ctx.get("prompts") or {}
    system = [text for text in (prompts.get("preamble"), prompts.get("heartbeat")) if text]
    return {"system": system or ["You keep yourself in order."], "user": "\n".join(lines)}


@hook
def compacting(ctx):
    """Say what a summary must keep."""
    prompts = ctx.get("prompts") or {}
    parts = [prompts.get("compaction") or "Sum up the conversation."]
    names = sorted({row["name"] for row in people().rows if mentioned(row["name"], ctx.get("history") or [])})
    if names:
        parts.append(f"Keep what was said about {', '.join(names)}.")
    open_tasks = [task_line(row) for row in sorted(tasks().rows, key=urgency) if not row.get("done")]
    if open_tasks:
        parts.append("Keep these tasks in mind:\n" + "\n".join(open_tasks[:10]))
    return {"prompt": "\n\n".join(parts)}


@hook
def format_notification(ctx):
    """Tell other sessions in one line what has changed."""
    lines = []
    for one in ctx.get("notifications") or []:
        if not isinstance(one, dict):
            continue
        kind = one.get("type")
        if kind == "trait_changed":
            lines.append(f"your traits have changed: {', '.join(one.get('files', []))}")
        elif kind == "task_done":
            lines.append(f"a task was done: {one.get('title')}")
        elif kind == "promised":
            lines.append(f"it was promised: {'; '.join(one.get('titles', []))}")
    unique = list(dict.fromkeys(lines))
    return {"message": "[update] " + ". ".join(unique) + "."} if unique else {}


@hook
def recover(ctx):
    """Say what to do when a hook has failed."""
    failed = ctx.get("failed_hook", "a hook")
    error = " ".join(str(ctx.get("error", "")).split())[:500]
    return {
        "system": ["You are an assistant whose own script has failed. Mend it before anything else."],
        "user": f"The hook {failed} of hooks/persona.py has failed: {error}\nRead the script and mend it.",
    }


@hook
def execute_tool(ctx):
    """Run a tool."""
    name = ctx.get("tool")
    if name not in TOOLS:
        near = nearest(str(name), TOOLS)
        return {"error": f"there is no tool {name}" + (f"; did you mean {near}?" if near else "")}
    _, function = TOOLS[name]
    try:
        said = function(ctx.get("args") or {})
    except Trouble as trouble:
        return {"error": str(trouble)}
    return said.answer() if isinstance(said, Reply) else {"result": said}


@hook
def tool_before(ctx):
    """Look at each call; nothing is changed."""
    if ctx.get("tool") == "bash" and "rm -rf" in json.dumps(ctx.get("args") or {}):
        log("a command that removes a folder is about to run")
    return {}


@hook
def tool_after(ctx):
    """Remember calls that failed."""
    output = str(ctx.get("output") or "")
    if output.startswith("Error") or "Traceback" in output:
        remember_event("failed call", f"{ctx.get('tool')}: {excerpt(output, 'error')}")
    return {}


# ---------------------------------------------------------------------------------------------------------
# What the hooks need
# ---------------------------------------------------------------------------------------------------------


def going_on_now():
    """Return what is due, a line each; an empty text where nothing is."""
    lines = [f"- reminder #{row['id']}: {row['text']}" for row in due_reminders()[:10]]
    for row in sorted(tasks().rows, key=urgency)[:10]:
        if row.get("due") and row["due"] <= today() and not row.get("done"):
            lines.append(f"- task {task_line(row)}")
    lines += [f"- birthday of {name} in {counted(ahead, 'day')}" for ahead, name in birthdays(3)]
    return "\n".join(lines)


def promises(answer):
    """Return what an answer promises: its lines that begin with `TODO:` or `I will remember to`."""
    found = []
    for line in answer.splitlines():
        match = re.match(r"\s*(?:[-*]\s*)?(?:TODO:|I will remember to)\s+(.{3,200})", line)
        if match:
            found.append(" ".join(match.group(1).split()).rstrip("."))
    return list(dict.fromkeys(found))[:5]


def mentioned(name, history):
    """Whether a name comes up in a history."""
    first = name.split()[0].lower()
    for message in history:
        for part in message.get("parts") or []:
            if first in str(part.get("text", "")).lower():
                return True
    return False


def remember_event(kind, text):
    """Write down that something happened."""
    table = events()
    table.add(kind=kind, text=text)
    table.keep(KEPT_EVENTS)
    table.save()


def forget_old_events():
    """Forget what happened more than thirty days ago."""
    table = events()
    kept = [row for row in table.rows if age_in_days(row.get("made")) <= 30]
    if len(kept) < len(table.rows):
        table.rows = kept
        table.save()


def main():
    """Answer one hook."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in HOOKS:
        print(json.dumps({"error": f"unknown hook: {name}"}))
        return 1
    ctx = json.loads(sys.stdin.read() or "{}")
    for key, value in HOOKS[name](ctx).items():
        print(json.dumps({key: value}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
