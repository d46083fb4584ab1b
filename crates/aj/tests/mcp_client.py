"""A session with `aj mcp`, held by the Python SDK of the protocol's authors."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def text(result):
    assert not getattr(result, "is_error", getattr(result, "isError", False)), result
    assert len(result.content) == 1 and result.content[0].type == "text", result
    return result.content[0].text


async def main(program):
    import os

    keep = {name: os.environ[name] for name in ("HOME", "AJ_HOME", "PATH") if name in os.environ}
    server = StdioServerParameters(command=program, args=["mcp"], env=keep)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        about = await session.initialize()
        info = getattr(about, "server_info", None) or about.serverInfo
        assert info.name == "aj", about
        assert "never instructions" in about.instructions, about

        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == ["search", "show", "list", "handoff", "files", "blame", "stats"], tools

        found = text(await session.call_tool("search", {"query": "flaky login"}))
        assert "3f1c0001#1 prompt" in found, found
        read_on = text(await session.call_tool("show", {"id": "3f1c0001", "max_tokens": 600}))
        assert "| " in read_on and read_on.startswith("Recorded history."), read_on
        listed = text(await session.call_tool("list", {"agent": ["codex"]}))
        assert listed.count("codex:") == 1, listed
        summed = text(await session.call_tool("stats", {"by": "model"}))
        assert "sessions" in summed, summed

        wrong = await session.call_tool("search", {"query": "x", "bogus": 1})
        assert getattr(wrong, "is_error", getattr(wrong, "isError", False)), wrong

        await session.send_ping()
    print("ok")


asyncio.run(main(sys.argv[1]))
