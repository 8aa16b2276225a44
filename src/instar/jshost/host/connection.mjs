// The socket to instar: a descriptor that the child was started with.

import { createReadStream, writeSync } from "node:fs"
import { Socket } from "node:net"

// Return a stream that reads and writes `fd`.
export function connected(fd) {
  // Bun's sockets take no descriptor: it reads the socket as a file is read.
  return globalThis.Bun ? new Plain(fd) : new Socket({ fd, readable: true, writable: true })
}

class Plain {
  constructor(fd) {
    this.fd = fd
    this.stream = createReadStream("", { fd, autoClose: false })
  }

  on(event, listener) {
    this.stream.on(event, listener)
    if (event === "close") this.stream.on("end", listener)
  }

  write(frame) {
    for (let at = 0; at < frame.length; ) at += writeSync(this.fd, frame, at)
  }
}
