"""Real IPFS daemons for tests: npm `ipfs-daemon` (js-ipfs, with the Kubo RPC), alone on loopback.

Installed once into .build/ipfs (three minutes, from the npm registry), then started in a second or two. A daemon ends with
`stop`, and also when this process ends in whatever way: it watches its standard input.
"""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from threading import Thread

import ipfshttpclient
import requests

HOME = Path(__file__).parents[2] / ".build" / "ipfs"
INSTALL_S = 900
START_S = 60

_PACKAGE = {
    "name": "ipfs-for-tests",
    "private": True,
    "type": "module",
    "dependencies": {"ipfs-daemon": "0.16.1"},
    # Without these, two versions of the same class meet and the daemon does not start.
    "overrides": {"@multiformats/multiaddr": "12.5.1", "@multiformats/mafmt": "12.1.6"},
}

# Promise.withResolvers came with Node 22. No bootstrap, no discovery, no routing: peers are those that a test connects.
_PROGRAM = """\
Promise.withResolvers ??= () => {
  let resolve, reject
  const promise = new Promise((yes, no) => { resolve = yes; reject = no })
  return { promise, resolve, reject }
}
const { Daemon } = await import('ipfs-daemon')
const any = '/ip4/127.0.0.1/tcp/0'
const daemon = new Daemon({
  repo: process.argv[2],
  silent: true,
  init: { emptyRepo: true, algorithm: 'Ed25519' },
  config: {
    Addresses: { Swarm: [any], API: any, Gateway: any, RPC: '', Delegates: [], Announce: [], NoAnnounce: [] },
    Bootstrap: [],
    Discovery: { MDNS: { Enabled: false }, webRTCStar: { Enabled: false } },
    Routing: { Type: 'none' },
    Pubsub: { Enabled: false }
  }
})
let ending = false
const end = async () => {
  if (ending) return
  ending = true
  setTimeout(() => process.exit(0), 3000)
  await daemon.stop()
  process.exit(0)
}
process.stdin.on('end', end).resume()
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, end)
await daemon.start()
const { id, addresses } = await daemon._ipfs.id()
const api = daemon._httpApi._apiServers[0].info.uri
console.log(JSON.stringify({ api, id: String(id), swarm: addresses.map(String) }))
"""


class Daemon:
    """One daemon with a repository of its own. api: URL of its RPC; address: where another daemon connects."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "daemon.log").open("wb")
        self.process = subprocess.Popen(
            [_node(), str(HOME / "daemon.mjs"), str(folder / "repo")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=HOME,
        )
        try:
            first = json.loads(self._first_line())
        except ValueError:
            self.stop()
            raise RuntimeError(
                f"the IPFS daemon did not start:\n{(folder / 'daemon.log').read_text()[-2000:]}"
            ) from None
        self.api: str = first["api"]
        self.address: str = first["swarm"][0]

    def client(self, timeout_s: float = 30) -> ipfshttpclient.Client:
        port = self.api.rsplit(":", 1)[1]
        return ipfshttpclient.Client(f"/ip4/127.0.0.1/tcp/{port}/http", timeout=timeout_s)

    def connect(self, other: "Daemon") -> None:
        # Not by ipfshttpclient, whose `swarm.connect` takes an address apart into letters.
        requests.post(f"{self.api}/api/v0/swarm/connect", params={"arg": other.address}, timeout=30).raise_for_status()

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()

    def _first_line(self) -> bytes:
        lines: list[bytes] = []
        stdout = self.process.stdout
        assert stdout is not None
        reader = Thread(target=lambda: lines.append(stdout.readline()), daemon=True)
        reader.start()
        reader.join(START_S)
        return lines[0] if lines else b""


def start(folder: Path) -> Daemon:
    install()
    folder.mkdir(parents=True, exist_ok=True)
    return Daemon(folder)


def install() -> None:
    """Idempotent, and safe when several test processes come at once. Raises RuntimeError when it cannot be done."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _replace(HOME / "daemon.mjs", _PROGRAM)
        manifest = json.dumps(_PACKAGE, indent=2)
        done = HOME / "installed.json"
        if done.exists() and done.read_text() == manifest:
            return
        _replace(HOME / "package.json", manifest)
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            ran = subprocess.run(command, cwd=HOME, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except FileNotFoundError:
            raise RuntimeError("npm is not installed; the IPFS tests need it and Node 20 or newer") from None
        if ran.returncode:
            raise RuntimeError(f"npm could not install the IPFS daemon:\n{ran.stderr[-2000:]}")
        _replace(done, manifest)


def _node() -> str:
    node = os.environ.get("NODE") or shutil.which("node")
    if node is None:
        raise RuntimeError("node is not installed; the IPFS tests need Node 20 or newer (or its path in $NODE)")
    return node


def _replace(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


if __name__ == "__main__":  # `python tests/integration/ipfs_daemon.py`: one daemon to play with, until Ctrl-C
    with tempfile.TemporaryDirectory() as place:
        daemon = start(Path(place))
        print(f"kubo:{daemon.api}", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            daemon.stop()
