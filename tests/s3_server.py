"""A real S3 server (SeaweedFS) on free loopback ports, started and stopped by the tests."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from uuid import uuid4

import obstore
from obstore.store import S3Store

from .ports import free_ports
from .requirements import needed

BUCKET = "tests"
ACCESS_KEY, SECRET_KEY = "tester", "only-for-tests"
CONFIG = """{"identities": [{"name": "tester", "actions": ["Admin", "Read", "Write", "List"],
"credentials": [{"accessKey": "tester", "secretKey": "only-for-tests"}]}]}"""


class S3Server:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ports = free_ports(9)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports[0]}"

    def new_bucket(self) -> str:
        """The URL of an empty prefix in the bucket, for the setting `storage.files`."""
        return f"s3://{BUCKET}/{uuid4().hex[:12]}?endpoint={self.endpoint}"

    def environment(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def start(self) -> None:
        program = Path(sys.executable).with_name("weed")
        executable = str(program) if program.exists() else needed("weed")
        (self.directory / "s3.json").write_text(CONFIG)
        s3, s3_grpc, filer, filer_grpc, master, master_grpc, volume, volume_grpc, *_ = self._ports
        command = [
            executable, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={self.directory}",
            "-s3", f"-s3.config={self.directory / 's3.json'}", "-s3.iam=false",
            f"-s3.port={s3}", f"-s3.port.grpc={s3_grpc}", "-s3.port.iceberg=0", "-s3.port.lance=0",
            "-s3.autoCreateBucket", f"-filer.port={filer}", f"-filer.port.grpc={filer_grpc}",
            f"-master.port={master}", f"-master.port.grpc={master_grpc}", "-master.telemetry=false",
            "-master.volumeSizeLimitMB=64", f"-volume.port={volume}",
            f"-volume.port.grpc={volume_grpc}", "-volume.max=100", "-master.electionTimeout=1s",
        ]  # fmt: skip
        log = (self.directory / "weed.log").open("ab")
        environment = {**os.environ, "HOME": str(self.directory)}
        self._process = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, cwd=self.directory
        )
        log.close()
        self._wait_until_ready()
        self._make_bucket()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while not self._answers():
            assert self._process is not None and self._process.poll() is None, "The server exited"
            assert time.monotonic() < deadline, "The S3 server does not respond"
            time.sleep(0.1)

    def _make_bucket(self) -> None:
        store = S3Store(
            BUCKET,
            endpoint=self.endpoint,
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            region="us-east-1",
            client_options={"allow_http": True},
        )
        obstore.put(store, "first", b"")  # the server creates the bucket with it

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint, timeout=2):
                return True
        except urllib.error.HTTPError as error:
            return error.code == 403  # it requires a key
        except OSError:
            return False
