"""A plain HTTP/1.1 client on asyncio streams: it shows the bytes, and can vanish at any moment."""

import asyncio
import json
import resource
import socket
import struct


def allow_many_files(count):
    """Raises this process's limit of open files, which the server it starts inherits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count and (hard == resource.RLIM_INFINITY or hard >= count):
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
        soft = count
    return soft >= count


class Connection:
    """`async with Connection(port) as connection:`; leaving it closes as a browser would."""

    def __init__(self, port):
        self.port = port

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port,
                                                                 limit=1 << 20)
        return self

    async def __aexit__(self, *_):
        self.writer.close()

    def vanish(self):
        """Closes with a reset, as when a machine loses power."""
        self.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def send(self, method, path, body=b"", headers=()):
        """`body` is bytes, or what JSON can say."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json",
                 f"Content-Length: {len(body)}", *headers, "", ""]
        self.writer.write("\r\n".join(lines).encode() + body)
        await self.writer.drain()

    async def head(self):
        """(status, headers with names in lower case)."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        self.headers = {name.lower(): value.strip() for name, _, value in
                        (line.partition(":") for line in lines[1:] if line)}
        return int(lines[0].split()[1]), self.headers

    async def pieces(self):
        """The body as it comes."""
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readline(), 16):
                piece = await self.reader.readexactly(size + 2)
                yield piece[:-2]
            await self.reader.readline()
        else:
            yield await self.reader.readexactly(int(self.headers["content-length"]))

    async def body(self):
        return b"".join([piece async for piece in self.pieces()])

    async def events(self):
        """The data of each server-sent event, [DONE] included."""
        rest = b""
        async for piece in self.pieces():
            *records, rest = (rest + piece).split(b"\n\n")
            for record in records:
                assert record.startswith(b"data: "), record
                yield record[len(b"data: "):].decode()
        assert rest == b"", rest

    async def ask(self, method, path, body=b"", headers=()):
        """(status, body)."""
        await self.send(method, path, body, headers)
        status, _ = await self.head()
        return status, await self.body()


async def ask(port, method, path, body=b""):
    """(status, body), on a connection of its own."""
    async with Connection(port) as connection:
        return await connection.ask(method, path, body)
