#!/usr/bin/env python3
"""A model server on loopback that answers coding agents by a plan and writes down the truth.

    model_server.py PORT TRUTH_FILE

It speaks four APIs: Anthropic messages, OpenAI responses, OpenAI chat completions, Gemini
generateContent, each streamed and plain. What it answers is decided by the newest user text that
holds a plan:

    Please tidy up. @@plan shell;write+read;agent

means: call a shell tool, then a write and a read tool in one answer, then start a sub-agent, then
give a final text. Kinds: shell (succeeds), fail (exit status 2), wait (takes four seconds, so that
a sub-agent in the background can finish), write, read, todo, grep, agent, none.
A kind for which the agent offers no tool is left out. Sub-agents get a prompt that begins with
SUBTASK and holds a plan of its own.

Every answer carries token figures that are a function of its number, so each call can be told from
every other, and appends one line to TRUTH_FILE:

    {"type":"call","n":3,"api":"chat","model":"m","input":1021,"output":103,"cache_read":503,
     "cache_write":0,"reasoning":13,"tools":[{"name":"bash","kind":"shell","fails":false}],
     "purpose":"turn","hidden":false,"sub_agent":false,"text":"STEP-3 ..."}

input is fresh input only; cache_read and cache_write stand beside it, not in it; output holds the
reasoning tokens, as on the bill. hidden marks calls the agent makes for itself (titles, summaries,
compaction, suggestions): they cost tokens, but are no part of the conversation.
"""
import gzip
import json
import os
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOCK = threading.Lock()
COUNT = [0]
RUN = f"{int(time.time()):08x}"  # in every id, so that ids of two recordings never meet
TRUTH = None
PROJECT = os.environ.get("FARM_PROJECT", "/home/dev/proj")
DEBUG = os.environ.get("FARM_DEBUG")  # a file for the last user text of each request, never kept

# Tool names by kind, over all agents known so far; the first one offered is taken.
TOOL_NAMES = {
    "shell": ["Bash", "bash", "shell", "exec_command", "shell_command", "local_shell",
              "run_shell_command", "execute_command", "run_command", "terminal", "Shell", "Execute",
              "developer__shell", "run_terminal_command", "exec", "execute", "run_commands",
              "launch-process", "run_in_terminal", "Terminal"],
    "write": ["Write", "write", "write_file", "create_file", "write_to_file", "create", "Create",
              "fs_write", "WriteFile", "save-file", "editor", "edit_file",
              "developer__text_editor"],
    "read": ["Read", "read", "read_file", "view", "ReadFile", "read_files"],
    "agent": ["Agent", "Task", "task", "agent", "spawn_agent", "delegate", "new_task",
              "delegate_task", "use_subagents", "subagent", "dispatch_agent", "invoke_agent"],
    "todo": ["TodoWrite", "todowrite", "todo_write", "write_todos", "update_plan", "todos",
             "TodoList", "manage_todo_list", "TaskCreate", "SetTodoList", "todo"],
    "grep": ["Grep", "grep", "search_file_content", "grep_search", "rg"],
}
TOOL_NAMES["fail"] = TOOL_NAMES["wait"] = TOOL_NAMES["shell"]

# Texts by which an agent's own calls are told from the conversation: (purpose, pattern).
HIDDEN = [
    ("compact", r"CONTEXT CHECKPOINT COMPACTION|create a detailed summary of (the|our|this) "
                r"conversation|detailed summary of the conversation|summarize the conversation"
                r"|Summary instructions|<state_snapshot>|CRITICAL: Respond with TEXT ONLY"
                r"|context summarization assistant"),
    ("memory", r"## Existing memory files"),
    ("suggest", r"SUGGESTION MODE|predict what the user|suggest.{0,40}next prompt"),
    ("title", r"single-line task title|ultra-short dashboard line|session title|Generate a title"
              r"|generate a (short|brief|concise)[^.]{0,40}title|title (generator|for this)"
              r"|conversation title|3-7 word|short title|You are a title|five words or less"),
]


def arguments(tool, schema, kind, n):
    """Arguments for a tool call that fit the tool's own schema."""
    props = (schema or {}).get("properties") or {}
    required = (schema or {}).get("required") or []
    out = {}
    for key, prop in props.items():
        typ = prop.get("type")
        typ = typ[0] if isinstance(typ, list) else typ
        low = key.lower()
        if low in ("command", "cmd", "script", "commands", "commandline", "bash_command"):
            line = f"echo TOOLOUT-{n}"
            if kind == "fail":
                line += f"; ls /nonexistent-{n}"
            elif kind == "wait":
                line = "sleep 4; " + line
            if typ == "array":
                out[key] = ["bash", "-lc", line] if low == "command" else [line]
            else:
                out[key] = line
        elif low in ("file_path", "path", "filepath", "absolute_path", "target_file", "filename",
                     "absolutepath"):
            name = {"grep": "", "read": "/README.md"}.get(kind, f"/mock-{n}.txt")
            out[key] = PROJECT + name
        elif low in ("content", "contents", "file_text", "text", "file_content"):
            out[key] = f"written by the mock {n}\nline two\n"
        elif low in ("prompt", "task", "instructions", "message", "goal"):
            out[key] = f"SUBTASK-{n} please check. @@plan shell"
        elif low in ("justification", "sandbox_permissions"):
            continue
        elif low in ("description", "explanation", "title", "summary", "task_name", "name"):
            out[key] = f"mock_desc_{n}" if low == "task_name" else f"mock desc {n}"
        elif low in ("subagent_type", "agent", "agent_type", "subagent"):
            if tool == "Agent" and key not in required:
                continue  # its own choice is always allowed
            enum = prop.get("enum")
            plain = "general" if low == "agent" or tool == "task" else "general-purpose"
            out[key] = enum[0] if enum else plain
        elif low == "agent_name":
            out[key] = prop["enum"][0] if prop.get("enum") else "generalist"
        elif low in ("pattern", "query", "regex"):
            out[key] = "needle"
        elif low in ("todos", "plan", "items", "tasks") and typ == "array":
            out[key] = [todo_item((prop.get("items") or {}).get("properties") or {}, n)]
        elif key in required:
            out[key] = prop["enum"][0] if prop.get("enum") else plain_value(typ, n)
    for key in required:
        out.setdefault(key, f"v{n}")
    return out


def todo_item(props, n):
    item = {}
    for key, prop in props.items():
        if prop.get("enum"):
            item[key] = prop["enum"][0]
        elif key in ("goal", "prompt", "task"):
            item[key] = f"SUBTASK-{n} please check. @@plan shell"
        elif prop.get("type") == "string":
            item[key] = f"todo {n}"
        elif prop.get("type") in ("number", "integer"):
            item[key] = 1
        elif prop.get("type") == "boolean":
            item[key] = False
    return item or f"todo {n}"


def plain_value(typ, n):
    return {"string": f"v{n}", "number": 1, "integer": 1, "boolean": False, "array": [],
            "object": {}}.get(typ, f"v{n}")


def offered_tools(body):
    """name -> schema of the tools the request offers, whatever the API."""
    found = {}
    for tool in body.get("tools") or []:
        if "functionDeclarations" in tool:
            for decl in tool["functionDeclarations"]:
                found[decl["name"]] = decl.get("parametersJsonSchema") or decl.get("parameters")
        elif "function" in tool:
            found[tool["function"]["name"]] = tool["function"].get("parameters")
        elif tool.get("type") == "namespace":
            for sub in tool.get("tools", []):
                found[sub["name"]] = {**(sub.get("parameters") or {}),
                                      "__namespace": tool.get("name")}
        elif tool.get("name"):
            custom = {"__custom": True} if tool.get("type") == "custom" else None
            found[tool["name"]] = tool.get("input_schema") or tool.get("parameters") or custom
        elif tool.get("type"):
            found[tool["type"]] = None
    return found


def pick(kind, tools):
    return next((name for name in TOOL_NAMES.get(kind, []) if name in tools), None)


def text_of(content):
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join((b.get("text") or "") if isinstance(b, dict) else str(b) for b in content)
    return ""


def conversation(body, api):
    """The request as a list of (role, text), one ("tool", "") per tool result."""
    out = []
    if api == "gemini":
        for msg in body.get("contents", []):
            parts = msg.get("parts", [])
            results = [p for p in parts if "functionResponse" in p]
            if msg.get("role") == "model":
                out.append(("assistant", ""))
            else:
                out += [("tool", "")] * len(results)
                text = "\n".join(p.get("text", "") for p in parts if "functionResponse" not in p)
                if text.strip():
                    out.append(("user", text))
    elif api == "responses":
        items = body.get("input")
        if isinstance(items, str):
            return [("user", items)]
        for item in items or []:
            typ = item.get("type", "message")
            if typ == "message" and item.get("role") in ("assistant", "user"):
                text = text_of(item.get("content")) if item["role"] == "user" else ""
                out.append((item["role"], text))
            elif typ.endswith("_call"):
                out.append(("assistant", ""))
            elif typ.endswith("_output"):
                out.append(("tool", ""))
            elif "SUBTASK-" in json.dumps(item):  # a task handed from agent to agent
                out.append(("user", json.dumps(item)))
    else:
        for msg in body.get("messages", []):
            role, content = msg.get("role"), msg.get("content")
            if role in ("assistant", "tool"):
                out.append((role, ""))
            elif role == "user":
                blocks = content if isinstance(content, list) else []
                results = [b for b in blocks
                           if isinstance(b, dict) and b.get("type") == "tool_result"]
                out += [("tool", "")] * len(results)
                rest = [b for b in blocks if b not in results]
                text = text_of(rest if blocks else content)
                if text.strip():
                    out.append(("user", text))
    return out


def system_text(body, api):
    if api == "gemini":
        return text_of((body.get("systemInstruction") or {}).get("parts"))
    if api == "anthropic":
        return text_of(body.get("system"))
    if api == "responses":
        return body.get("instructions") or ""
    return "\n".join(text_of(m.get("content")) for m in body.get("messages", [])
                     if m.get("role") in ("system", "developer"))


def purpose_of(talk, system, tools):
    """Why the agent asked: a turn of the conversation, or something for itself."""
    last = next((text for role, text in reversed(talk) if role == "user"), "")
    # A long text is a prompt with context around it: only its ends can be an instruction.
    ends = last[:600] + "\n" + last[-6000:] if "@@plan" not in last else last[:600]
    for purpose, pattern in HIDDEN:
        if re.search(pattern, ends, re.I | re.S):
            return purpose
    if not tools:
        for purpose, pattern in HIDDEN:
            if re.search(pattern, system[:4000], re.I | re.S):
                return purpose
    return "turn"


def decide(body, api, model):
    """Number the call, choose tools and text, write the truth."""
    with LOCK:
        COUNT[0] += 1
        n = COUNT[0]
    talk, tools = conversation(body, api), offered_tools(body)
    system = system_text(body, api)
    purpose = purpose_of(talk, system, tools)
    start, plan, origin = None, [], ""
    for i, (role, text) in enumerate(talk):
        found = re.findall(r"@@plan ([a-z;+]+)", text) if role == "user" else None
        if found:
            start, plan, origin = i, found[-1].split(";"), text
    groups = [[k for k in group.split("+") if pick(k, tools)] for group in plan]
    groups = [g for g in groups if g]
    done = sum(role == "tool" for role, _ in talk[start + 1:]) if start is not None else 0
    while groups and done >= len(groups[0]):
        done -= len(groups.pop(0))
    calls = []
    for kind in groups[0] if groups and purpose == "turn" else []:
        name = pick(kind, tools)
        schema = tools[name]
        custom = isinstance(schema, dict) and schema.get("__custom")
        args = f"echo TOOLOUT-{n}" if custom else arguments(name, schema, kind, n)
        calls.append({"name": name, "kind": kind, "args": args,
                      "namespace": (schema or {}).get("__namespace")})
    names = " and ".join(c["name"] for c in calls)
    text = (f"STEP-{n} I will call {names} now." if calls
            else f"Mock title {n}" if purpose == "title"
            else f"FINAL-{n} the answer with word zorblax{n}.")
    # The form that the agent asks for: it tells its summary from a prompt by it.
    if purpose == "compact" and "<state_snapshot>" in json.dumps(body):
        text = f"<state_snapshot>{text}</state_snapshot>"
    usage = {"input": 1000 + 7 * n, "output": 100 + n, "cache_read": 500 + n,
             "cache_write": 50 + n if api == "anthropic" else 0,
             "reasoning": 0 if api == "anthropic" else 10 + n}
    truth = dict(usage)
    if api == "gemini":  # candidates and thoughts are counted apart there
        truth["output"] += truth["reasoning"]
    record = {"type": "call", "n": n, "api": api, "model": model, **truth,
              "tools": [{"name": c["name"], "kind": c["kind"], "fails": c["kind"] == "fail"}
                        for c in calls],
              "purpose": purpose, "hidden": purpose != "turn",
              "sub_agent": "SUBTASK-" in origin, "text": text}
    with LOCK, open(TRUTH, "a", encoding="utf-8") as log:
        log.write(json.dumps(record, ensure_ascii=False) + "\n")
    if DEBUG:
        last = next((t for r, t in reversed(talk) if r == "user"), "")
        with LOCK, open(DEBUG, "a", encoding="utf-8") as log:
            log.write(json.dumps({"n": n, "purpose": purpose, "tools": len(tools),
                                  "roles": "".join(r[0] for r, _ in talk),
                                  "last": last[-300:], "system": system[:200]}) + "\n")
    return n, calls, text, usage


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    # --- plumbing ---------------------------------------------------------------------------

    def reply(self, obj, code=200, headers=()):
        data = json.dumps(obj).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for key, value in headers:
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def begin_stream(self, n):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("request-id", f"req_{RUN}{n:06d}")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def send_event(self, obj, name=None):
        head = f"event: {name}\n" if name else ""
        data = obj if isinstance(obj, str) else json.dumps(obj)
        self.wfile.write(f"{head}data: {data}\n\n".encode())
        self.wfile.flush()

    def send_typed(self, obj):
        """An event whose name is its type."""
        self.send_event(obj, obj["type"])

    def read_body(self):
        if self.headers.get("transfer-encoding", "") == "chunked":
            raw = b""
            while True:
                size = int(self.rfile.readline().strip() or b"0", 16)
                if size == 0:
                    self.rfile.readline()
                    break
                raw += self.rfile.read(size)
                self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        encoding = self.headers.get("content-encoding", "")
        if encoding == "gzip":
            raw = gzip.decompress(raw)
        elif encoding == "zstd":
            raw = subprocess.run(["zstd", "-dc"], input=raw, capture_output=True).stdout
        return json.loads(raw or b"{}")

    # --- routes -----------------------------------------------------------------------------

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self):
        if "models" in self.path:
            model = {"id": "mock-1", "object": "model", "created": 1, "owned_by": "mock"}
            return self.reply({"object": "list", "data": [model], "models": []})
        return self.reply({}, 200 if "health" in self.path else 404)

    def do_POST(self):
        try:
            body = self.read_body()
        except (ValueError, OSError):
            return self.reply({})
        path = self.path.split("?")[0]
        if path.endswith("/messages/count_tokens"):
            return self.reply({"input_tokens": 1234})
        if ":countTokens" in path:
            return self.reply({"totalTokens": 1234})
        if path.endswith("/messages"):
            return self.answer_messages(body)
        if path.endswith("/responses"):
            return self.answer_responses(body)
        if path.endswith("/chat/completions"):
            return self.answer_chat(body)
        match = re.search(r"models/([^:]+):(stream)?[gG]enerateContent", path)
        if match:
            return self.answer_gemini(body, match.group(1), bool(match.group(2)))
        return self.reply({})

    # --- the four APIs ----------------------------------------------------------------------

    def answer_messages(self, body):
        model = body.get("model")
        n, calls, text, u = decide(body, "anthropic", model)
        usage = {"input_tokens": u["input"], "cache_creation_input_tokens": u["cache_write"],
                 "cache_read_input_tokens": u["cache_read"], "output_tokens": 1,
                 "service_tier": "standard",
                 "cache_creation": {"ephemeral_5m_input_tokens": u["cache_write"],
                                    "ephemeral_1h_input_tokens": 0}}
        thinking = body.get("thinking") or {}
        blocks = []
        if thinking and thinking.get("type") != "disabled":
            blocks.append({"type": "thinking", "thinking": f"THINK-{n} pondering",
                           "signature": "c2ln" * 20})
        blocks.append({"type": "text", "text": text})
        for i, call in enumerate(calls):
            blocks.append({"type": "tool_use", "id": f"toolu_{RUN}{n:014d}{i:02d}",
                           "name": call["name"], "input": call["args"]})
        stop = "tool_use" if calls else "end_turn"
        message = {"id": f"msg_{RUN}{n:016d}", "type": "message", "role": "assistant",
                   "model": model, "stop_sequence": None}
        if not body.get("stream"):
            usage["output_tokens"] = u["output"]
            return self.reply({**message, "content": blocks, "stop_reason": stop, "usage": usage},
                              headers=[("request-id", f"req_{RUN}{n:06d}")])
        self.begin_stream(n)
        start = {**message, "content": [], "stop_reason": None, "usage": usage}
        self.send_typed({"type": "message_start", "message": start})
        for i, block in enumerate(blocks):
            def delta(**kw):
                self.send_typed({"type": "content_block_delta", "index": i, "delta": kw})
            empty = {"thinking": {"type": "thinking", "thinking": "", "signature": ""},
                     "text": {"type": "text", "text": ""},
                     "tool_use": {**block, "input": {}}}[block["type"]]
            self.send_typed({"type": "content_block_start", "index": i, "content_block": empty})
            if block["type"] == "thinking":
                delta(type="thinking_delta", thinking=block["thinking"])
                delta(type="signature_delta", signature=block["signature"])
            elif block["type"] == "text":
                delta(type="text_delta", text=block["text"])
            else:
                delta(type="input_json_delta", partial_json=json.dumps(block["input"]))
            self.send_typed({"type": "content_block_stop", "index": i})
        usage = {"input_tokens": u["input"], "cache_creation_input_tokens": u["cache_write"],
                 "cache_read_input_tokens": u["cache_read"], "output_tokens": u["output"]}
        self.send_typed({"type": "message_delta", "usage": usage,
                         "delta": {"stop_reason": stop, "stop_sequence": None}})
        self.send_typed({"type": "message_stop"})

    def answer_responses(self, body):
        model = body.get("model")
        n, calls, text, u = decide(body, "responses", model)
        prompt = u["input"] + u["cache_read"]
        usage = {"input_tokens": prompt, "input_tokens_details": {"cached_tokens": u["cache_read"]},
                 "output_tokens": u["output"],
                 "output_tokens_details": {"reasoning_tokens": u["reasoning"]},
                 "total_tokens": prompt + u["output"]}
        items = [{"type": "reasoning", "id": f"rs_{RUN}{n:06d}", "encrypted_content": "ZW5j" * 10,
                  "summary": [{"type": "summary_text", "text": f"THINK-{n} pondering"}]},
                 {"type": "message", "id": f"msg_{RUN}{n:06d}", "role": "assistant",
                  "status": "completed",
                  "content": [{"type": "output_text", "text": text, "annotations": []}]}]
        for i, call in enumerate(calls):
            base = {"call_id": f"call_{RUN}{n:06d}_{i}", "name": call["name"],
                    "status": "completed"}
            if call["namespace"]:
                base["namespace"] = call["namespace"]
            if isinstance(call["args"], str):
                items.append({**base, "type": "custom_tool_call", "id": f"ctc_{RUN}{n:06d}_{i}",
                              "input": call["args"]})
            else:
                items.append({**base, "type": "function_call", "id": f"fc_{RUN}{n:06d}_{i}",
                              "arguments": json.dumps(call["args"])})
        answer = {"id": f"resp_{RUN}{n:06d}", "object": "response", "created_at": int(time.time()),
                  "status": "completed", "model": model, "output": items, "usage": usage,
                  "error": None, "incomplete_details": None}
        if not body.get("stream"):
            return self.reply(answer)
        self.begin_stream(n)
        seq = [0]

        def send(typ, **kw):
            self.send_typed({"type": typ, "sequence_number": seq[0], **kw})
            seq[0] += 1
        send("response.created",
             response={**answer, "status": "in_progress", "output": [], "usage": None})
        for i, item in enumerate(items):
            at = {"output_index": i}
            shell = {**item, "content": []} if item["type"] == "message" else item
            send("response.output_item.added", item=shell, **at)
            at["item_id"] = item["id"]
            if item["type"] == "message":
                part = {"type": "output_text", "text": "", "annotations": []}
                send("response.content_part.added", content_index=0, part=part, **at)
                send("response.output_text.delta", content_index=0, delta=text, **at)
                send("response.output_text.done", content_index=0, text=text, **at)
            elif item["type"] == "function_call":
                send("response.function_call_arguments.delta", delta=item["arguments"], **at)
                send("response.function_call_arguments.done", arguments=item["arguments"], **at)
            send("response.output_item.done", output_index=i, item=item)
        send("response.completed", response=answer)

    def answer_chat(self, body):
        model = body.get("model")
        n, calls, text, u = decide(body, "chat", model)
        prompt = u["input"] + u["cache_read"]
        usage = {"prompt_tokens": prompt, "completion_tokens": u["output"],
                 "total_tokens": prompt + u["output"],
                 "prompt_tokens_details": {"cached_tokens": u["cache_read"]},
                 "completion_tokens_details": {"reasoning_tokens": u["reasoning"]}}
        tools = [{"index": i, "id": f"call_{RUN}{n:06d}_{i}", "type": "function",
                  "function": {"name": c["name"], "arguments": json.dumps(c["args"])}}
                 for i, c in enumerate(calls)]
        finish = "tool_calls" if calls else "stop"
        base = {"id": f"chatcmpl-{RUN}{n:06d}", "created": int(time.time()), "model": model}
        if not body.get("stream"):
            message = {"role": "assistant", "content": text}
            if tools:
                message["tool_calls"] = tools
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return self.reply({**base, "object": "chat.completion", "choices": [choice],
                               "usage": usage})
        self.begin_stream(n)
        base["object"] = "chat.completion.chunk"

        def delta(obj, finish_reason=None):
            self.send_event({**base, "choices": [{"index": 0, "delta": obj,
                                             "finish_reason": finish_reason}]})
        delta({"role": "assistant", "content": ""})
        delta({"reasoning_content": f"THINK-{n} pondering"})
        delta({"content": text})
        if tools:
            delta({"tool_calls": tools})
        delta({}, finish)
        self.send_event({**base, "choices": [], "usage": usage})
        self.send_event("[DONE]")

    def answer_gemini(self, body, model, stream):
        n, calls, text, u = decide(body, "gemini", model)
        parts = [{"text": f"**Pondering** THINK-{n}", "thought": True}, {"text": text}]
        for i, call in enumerate(calls):
            parts.append({"functionCall": {"name": call["name"], "args": call["args"],
                                           "id": f"call_{RUN}{n:06d}_{i}"},
                          "thoughtSignature": "c2ln"})
        config = body.get("generationConfig") or {}
        if config.get("responseMimeType") == "application/json" or config.get("responseJsonSchema"):
            parts = [{"text": json.dumps({
                "reasoning": "mock", "next_speaker": "user", "model_choice": "flash",
                "confidence": 0.5, "complexity_score": 10, "complexity_reasoning": "x"})}]
        prompt = u["input"] + u["cache_read"]
        answer = {"candidates": [{"content": {"role": "model", "parts": parts},
                                  "finishReason": "STOP", "index": 0}],
                  "usageMetadata": {
                      "promptTokenCount": prompt, "cachedContentTokenCount": u["cache_read"],
                      "candidatesTokenCount": u["output"], "thoughtsTokenCount": u["reasoning"],
                      "totalTokenCount": prompt + u["output"] + u["reasoning"]},
                  "modelVersion": model, "responseId": f"r{RUN}{n}"}
        if not stream:
            return self.reply(answer)
        self.begin_stream(n)
        self.send_event(answer)


def main():
    global TRUTH
    port, TRUTH = int(sys.argv[1]), sys.argv[2]
    ThreadingHTTPServer.request_queue_size = 64
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
