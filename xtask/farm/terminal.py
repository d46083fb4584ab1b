#!/usr/bin/env python3
"""Drive a program in a terminal of its own, blindly: send keys, wait, send keys.

    terminal.py "PROGRAM ARG ..." STEP...

A step is wait:SECONDS, settle:SECONDS (wait until the program has drawn something and then nothing
for QUIET_SECONDS, at most so long), ENTER, ESC, UP, DOWN, CTRLC, CTRLD, prompt:TEXT (typed, ENTER pressed and
written to $TRUTH as a typed prompt), command:TEXT (the same for slash commands), or plain text to
type. What the program draws goes to $TUI_LOG when that is set.
"""
import json
import os
import pty
import select
import signal
import shlex
import struct
import sys
import termios
import time
from fcntl import ioctl

# Programs that start on a busy machine pause for several seconds between two drawings.
QUIET_SECONDS = 8
KEYS = {"ENTER": "\r", "ESC": "\x1b", "UP": "\x1b[A", "DOWN": "\x1b[B", "CTRLC": "\x03",
        "CTRLD": "\x04"}


def note(kind, text):
    if os.environ.get("TRUTH"):
        with open(os.environ["TRUTH"], "a", encoding="utf-8") as log:
            log.write(json.dumps({"type": kind, "text": text}, ensure_ascii=False) + "\n")


def main():
    argv = shlex.split(sys.argv[1])
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(argv[0], argv)
    ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 140, 0, 0))
    screen = open(os.environ.get("TUI_LOG") or os.devnull, "wb")

    drawn = [0]

    def pump(seconds):
        end = time.time() + seconds
        while time.time() < end:
            if select.select([fd], [], [], 0.2)[0]:
                try:
                    data = os.read(fd, 65536)
                except OSError:
                    return
                screen.write(data)
                drawn[0] += len(data)
                # Some programs ask where the cursor is and wait for the answer.
                if b"\x1b[6n" in data:
                    os.write(fd, b"\x1b[1;1R")
                if b"\x1b[c" in data:
                    os.write(fd, b"\x1b[?62;c")

    def settle(seconds):
        end, quiet_since = time.time() + seconds, None
        while time.time() < end and (quiet_since is None or time.time() < quiet_since + QUIET_SECONDS):
            before = drawn[0]
            pump(0.5)
            if drawn[0] != before:
                quiet_since = time.time()

    def send(text, seconds=0.8):
        try:
            os.write(fd, text.encode())
        except OSError:
            return
        pump(seconds)

    for step in sys.argv[2:]:
        if step.startswith("wait:"):
            pump(float(step[5:]))
        elif step.startswith("settle:"):
            settle(float(step[7:]))
        elif step in KEYS:
            send(KEYS[step])
        elif step.startswith(("prompt:", "command:")):
            kind, text = step.split(":", 1)
            note(kind, text)
            send(text, 1.2)
            send("\r", 1.0)
        else:
            send(step)
    for sig in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, sig)
        except OSError:
            break
        pump(1.5)


main()
