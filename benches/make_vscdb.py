#!/usr/bin/env python3
"""Makes a synthetic Cursor `state.vscdb` of a given size, laid out as a home. Deterministic.

    make_vscdb.py --mb 1000 --out DIR
    make_vscdb.py --messages 1000000 --needle WORD --out DIR
    make_vscdb.py --write --needle WORD --out DIR     # the editor writes one row, and goes on

What fills such databases in life fills this one: most bytes are caches that hold no conversation
(`agentKv:blob:`, `checkpointId:`, `messageRequestContext:`), a third are bubbles; there are empty
composers, deleted rows and bubbles nobody refers to.
"""

import argparse
import json
import os
import random
import sqlite3
import uuid
from pathlib import Path

WORDS = (
    "the cart total is wrong after tax please fix rounding test parser index cache retry upload "
    "branch merge config handler stream buffer token session model query result error timeout "
    "layout button render state reducer schema migration column table lock thread channel"
).split()

START = 1_757_700_000_000
FOLDER = "/home/mara/shop"


class Maker:
    def __init__(self, out, arguments):
        self.random = random.Random(arguments.seed)
        self.target = arguments.mb * 1_000_000
        self.messages = arguments.messages
        self.needle = arguments.needle
        user = Path(out) / ".config/Cursor/User"
        self.workspace = user / "workspaceStorage/0f0e0d0c0b0a"
        self.workspace.mkdir(parents=True, exist_ok=True)
        (user / "globalStorage").mkdir(parents=True, exist_ok=True)
        self.path = user / "globalStorage/state.vscdb"
        self.path.unlink(missing_ok=True)
        self.database = create(self.path)
        self.heads = []
        self.counts = {"composers": 0, "bubbles": 0, "tool_calls": 0, "empty": 0, "orphans": 0}

    def size(self):
        (pages,) = self.database.execute("PRAGMA page_count").fetchone()
        (page,) = self.database.execute("PRAGMA page_size").fetchone()
        return pages * page

    def id(self):
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def text(self, words):
        return " ".join(self.random.choices(WORDS, k=words))

    def put(self, key, value):
        if isinstance(value, (dict, list)):
            value = json.dumps(value, separators=(",", ":"))
        self.database.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key, value))

    def run(self):
        while not self.is_full():
            self.composer()
            if self.counts["composers"] % 5 == 0:
                self.empty()
        self.database.commit()
        self.database.close()
        self.list_heads()
        return self.counts

    def is_full(self):
        if self.messages:
            return self.counts["bubbles"] >= self.messages
        return self.size() >= self.target

    def composer(self):
        composer, at = self.id(), START + self.counts["composers"] * 600_000
        headers = []
        for turn in range(self.random.randint(2, 30)):
            when = at + turn * 20_000
            headers.append(self.prompt(composer, when))
            for _ in range(self.random.randint(0, 6)):
                headers.append(self.call(composer, when))
            headers.append(self.answer(composer, when))
            if not self.messages:
                self.caches(composer)
        if self.random.random() < 0.2:
            self.counts["orphans"] += 1
            self.prompt(composer, at)
        head = {
            "composerId": composer,
            "name": self.text(4),
            "createdAt": at,
            "lastUpdatedAt": at + 600_000,
            "unifiedMode": "agent",
        }
        body = {
            "_v": 9,
            **head,
            "status": "completed",
            "modelConfig": {"modelName": "claude-4.5-sonnet"},
            "fullConversationHeadersOnly": headers,
            "conversationMap": {},
            "capabilities": [{"type": number, "data": {}} for number in (30, 15, 17, 22)],
            "originalFileStates": {f"file://{FOLDER}/src/{self.text(1)}.ts": {}},
        }
        self.put(f"composerData:{composer}", body)
        self.heads.append({"type": "head", **head})
        self.counts["composers"] += 1

    def bubble(self, composer, kind, fields):
        bubble = self.id()
        self.put(
            f"bubbleId:{composer}:{bubble}",
            {
                "_v": 3,
                "type": kind,
                "bubbleId": bubble,
                "capabilityStatuses": {"mutate-request": [], "start-submit-chat": []},
                "attachedCodeChunks": [],
                "context": {"notepads": [], "mentions": {"notepads": {}, "useWeb": False}},
                "tokenCount": {"inputTokens": 0, "outputTokens": 0},
                **fields,
            },
        )
        self.counts["bubbles"] += 1
        return {"bubbleId": bubble, "type": kind}

    def prompt(self, composer, when):
        text = self.text(self.random.randint(4, 60))
        rich = json.dumps({"root": {"children": [{"type": "text", "text": text}]}})
        fields = {"text": text, "richText": rich, "createdAt": stamp(when)}
        return self.bubble(composer, 1, {**fields, "supportedTools": list(range(1, 40))})

    def answer(self, composer, when):
        count = {"inputTokens": self.random.randint(500, 9000), "outputTokens": 200}
        text = self.text(self.random.randint(20, 300))
        if self.needle:
            text, self.needle = f"{text} {self.needle}", None
        fields = {"text": text, "createdAt": stamp(when + 15_000)}
        return self.bubble(composer, 2, {**fields, "tokenCount": count, "usageUuid": self.id()})

    def call(self, composer, when):
        self.counts["tool_calls"] += 1
        tool = {
            "tool": 5,
            "name": self.random.choice(["read_file", "edit_file", "run_terminal_cmd", "grep"]),
            "toolCallId": f"call_{self.id()}",
            "status": self.random.choices(["completed", "error"], [19, 1])[0],
            "rawArgs": json.dumps({"target_file": f"src/{self.text(1)}.ts"}),
            "params": json.dumps({"contents": self.text(50)}),
            "result": json.dumps({"contents": self.text(self.random.randint(20, 1200))}),
        }
        fields = {"text": "", "capabilityType": 15, "toolFormerData": tool}
        return self.bubble(composer, 2, {**fields, "createdAt": stamp(when + 5_000)})

    def caches(self, composer):
        for _ in range(4):
            size = self.random.randint(2_000, 16_000)
            key = self.random.getrandbits(256).to_bytes(32, "big").hex()
            self.put(f"agentKv:blob:{key}", self.random.randbytes(size))
        self.put(f"checkpointId:{composer}:{self.id()}", {"files": [self.text(20)]})
        self.put(f"messageRequestContext:{composer}:{self.id()}", {"layout": self.text(600)})

    def empty(self):
        self.counts["empty"] += 2
        self.put(f"composerData:{self.id()}", None)
        body = {"_v": 9, "fullConversationHeadersOnly": [], "createdAt": START}
        self.put(f"composerData:{self.id()}", body)

    def list_heads(self):
        folder = json.dumps({"folder": f"file://{FOLDER}"})
        (self.workspace / "workspace.json").write_text(folder)
        path = self.workspace / "state.vscdb"
        path.unlink(missing_ok=True)
        database = create(path)
        heads = json.dumps({"allComposers": self.heads})
        database.execute("INSERT INTO ItemTable VALUES ('composer.composerData', ?)", (heads,))
        database.commit()
        database.close()


def write(out, word):
    """Writes one conversation as a running editor does: it stays in the log."""
    database = sqlite3.connect(Path(out) / ".config/Cursor/User/globalStorage/state.vscdb")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA wal_autocheckpoint=0")
    bubble = {"bubbleId": "written", "type": 1, "text": f"what was written last: {word}"}
    body = {"_v": 9, "name": "Live", "conversation": [bubble]}
    rows = "INSERT INTO cursorDiskKV VALUES ('composerData:written-last', ?)"
    database.execute(rows, (json.dumps(body),))
    database.commit()
    # Closing would copy the log into the database and delete it.
    os._exit(0)


def create(path):
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous=OFF")
    for table in ("ItemTable", "cursorDiskKV"):
        database.execute(
            f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
        )
    return database


def stamp(millis):
    seconds, rest = divmod(millis - START, 1000)
    days, seconds = divmod(seconds, 86_400)
    day = 255 + days  # the 12th of September is day 255 of 2025
    year, day = 2025 + (day - 1) // 365, (day - 1) % 365
    months = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    month = 0
    while day >= months[month]:
        day -= months[month]
        month += 1
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"
    return f"{year}-{month + 1:02}-{day + 1:02}T{clock}Z"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=1000, help="size of the database in megabytes")
    parser.add_argument("--messages", type=int, help="this many messages instead of a size")
    parser.add_argument("--needle", help="a word that is to stand in one message")
    parser.add_argument("--out", required=True, help="the home to make")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write into the database that is there")
    options = parser.parse_args()
    if options.write:
        write(options.out, options.needle)
    maker = Maker(options.out, options)
    counts = maker.run()
    size = maker.path.stat().st_size
    print(json.dumps({"path": str(maker.path), "bytes": size, **counts}))


if __name__ == "__main__":
    main()
