"""A session of an agent with `sweep mcp`, by the official SDK. Prints the states of the claims.

session.py stdio PROGRAM LOCKS
session.py http URL TOKEN
"""

import asyncio
import contextlib
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

STUDY = {"recipes": ["study.yaml"]}


@contextlib.asynccontextmanager
async def connected(kind, where, secret):
    """A client, connected to the server."""
    if kind == "stdio":
        args = ["mcp", "--allow-run", "study.yaml"]
        server = StdioServerParameters(command=where, args=args, env={"SWEEP_LOCKS": secret})
        async with Client(server) as client:
            yield client
    else:
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx2.AsyncClient(headers=headers, timeout=90) as http:
            async with Client(streamable_http_client(where, http_client=http)) as client:
                yield client


async def call(client, tool, arguments, fails=False):
    """Calls a tool; its answer is JSON."""
    result = await client.call_tool(tool, arguments)
    assert bool(result.is_error) == fails, result
    return json.loads(result.content[0].text)


async def session(client):
    """Lists, validates, plans, runs and reads a study."""
    tools = {tool.name for tool in (await client.list_tools()).tools}
    assert {"describe", "validate", "plan", "run", "status", "report", "explain", "query"} <= tools, tools
    files = (await call(client, "describe", {}))["files"]
    assert [file["path"] for file in files] == ["study.yaml"], files
    assert (await call(client, "validate", STUDY))["valid"]
    assert (await call(client, "plan", STUDY))["tally"]["to_run"] == 6
    refused = await call(client, "plan", {"recipes": ["../study.yaml"]}, fails=True)
    assert refused["error"]["kind"] == "outside", refused
    await call(client, "run", {**STUDY, "wait_seconds": 0})
    status = await call(client, "status", {"wait_seconds": 60})
    assert status["state"] == "done", status
    report = await call(client, "report", {**STUDY, "tables": []})
    lines = (await call(client, "explain", {**STUDY, "job": "train/width=1,seed=0"}))["lines"]
    assert "is cached" in lines[0], lines
    assert (await call(client, "query", {}))["asked"] == 6
    read = await client.read_resource("sweep://reports/study/tables/widths.md")
    assert "width" in read.contents[0].text, read
    print(*[verdict["state"] for verdict in report["verdicts"]])


async def main(kind, where, secret):
    """Connects, and has a session."""
    async with connected(kind, where, secret) as client:
        await session(client)


asyncio.run(main(*sys.argv[1:]))
